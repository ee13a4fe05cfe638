"""Places that workers of a killed trial had, or still waited for: nobody gives them back before the job ends.

The places of a training belong to a process of Ray Train's. If that dies, with its trial, Ray keeps them as long as the
job lives. Ray Train's own cleaner asks the dashboard, so it never learns of the death where none runs, as on one
machine; and it is told of no places that did not come yet, for which an autoscaler goes on bringing nodes. The trial
would come again and wait for what it holds itself (ray-project/ray#54305).
"""

import logging

import ray
from ray._private import state
from ray.core.generated.gcs_pb2 import PlacementGroupTableData  # type: ignore[attr-defined]  # made by its import
from ray.util.placement_group import PlacementGroup, remove_placement_group

log = logging.getLogger(__name__)


def give_back_places() -> int:
    """Remove this job's placement groups whose makers have died; how many there were."""
    job = ray.get_runtime_context().get_job_id()
    found = 0
    for text in state.state._connect_and_get_accessor().get_placement_group_table():
        group = PlacementGroupTableData.FromString(text)
        if group.creator_job_id.hex() != job or group.is_detached or group.state == PlacementGroupTableData.REMOVED:
            continue
        if group.creator_actor_dead and not ray.ActorID(group.creator_actor_id).is_nil():  # nil: made by the driver
            remove_placement_group(PlacementGroup(ray.PlacementGroupID(group.placement_group_id)))
            found += 1
    if found:
        log.info("places of %d trainings whose trials were killed are free again", found)
    return found
