"""The frame all jobs share: arguments, help, dry run, exit statuses, the path of `summary.json` as the last line.

A job is a few lines: an options dataclass of a `vse` module, one function of a `Request`, and `main`. Nothing that Ray
pickles may be defined in the job file itself, because there it would belong to `__main__`.
"""

import argparse
import contextlib
import errno
import json
import os
import re
import signal
import sys
import textwrap
import time
import traceback
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, make_dataclass
from typing import Any, NoReturn, Protocol, get_type_hints, runtime_checkable

from vse import config as configuration
from vse.cli import interrupts
from vse.cli.addresses import (
    DEFAULT_WORKSPACE,
    by_name,
    check_addresses,
    existing_names,
    refuse_credentials,
    refuse_undecodable,
    workspace_address,
)
from vse.cli.keys import help_lines, tried
from vse.cluster.memory_shortage import memory_failure
from vse.display.escaping import escaped_output, one_line
from vse.errors import (
    Diverged,
    InputError,
    PlacementError,
    StorageError,
    TrialsFailedError,
    UnknownError,
    WorkersLostError,
    storage_failure,
)
from vse.storage.folder import Folder
from vse.workspace.provenance import write_summary
from vse.workspace.redaction import redact, redact_text

WRONG_INPUT = 2
_FOR_PEOPLE = ("report_html", "comparison_html", "page", "vectors")  # outputs named before the path of the summary
_KEPT = "finished work is kept"
_STAYS = f"{_KEPT}, and the same command continues from there"


@runtime_checkable
class Presets(Protocol):
    """Run configurations by name, as `vse.presets` has them."""

    def names(self) -> Sequence[str]: ...
    def preset(self, name: str, /) -> Any: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """A user's request. `config` is the run configuration and `options` are the job's own, both validated.

    `workspace` is an absolute path or an address with a scheme; `changed` the keys the user set (file or command line),
    which a search space may not touch; `overrides` the keys of the command line that changed the preset; `tracking` the
    MLflow address, None for the default.
    """

    job: str
    workspace: str
    preset: str | None
    config: Any
    options: Any
    changed: frozenset[str]
    tracking: str | None
    overrides: tuple[str, ...] = ()
    started: float = field(default_factory=time.time, compare=False)

    def write_summary(self, folder: Folder, **fields: Any) -> str:
        """Write `summary.json` of this request into a folder, and return its path (see `provenance.write_summary`)."""
        own: dict[str, Any] = {"job": self.job, "started": self.started, "configuration": self.config}
        return write_summary(folder, **{**own, "options": self.options, **fields})

    @property
    def elsewhere(self) -> tuple[str, ...]:
        """The `--workspace` arguments for printed commands, without credentials; empty for the default workspace."""
        is_default = self.workspace == workspace_address(DEFAULT_WORKSPACE)
        return () if is_default else ("--workspace", redact_text(self.workspace))


@escaped_output()
def main(
    job: str,
    run: Callable[[Request], Any],
    *,
    description: str,
    default_preset: str | None = None,
    options: Any = None,
    check: Callable[[Request], object] | None = None,
    plan: Callable[[Request], Iterable[str]] | None = None,
    presets: Presets | None = None,
    argv: Sequence[str] | None = None,
) -> int:
    """Serve one command line; returns the exit status: 0, 1 failed, 2 wrong input, 129/130/143 interrupted.

    Args:
        job: name of the job.
        run: does the work and returns the path of `summary.json`. It raises InputError for a request it cannot serve,
            and prints only after everything is written, because the reader of a pipe may have closed it.
        description: first lines of the help.
        default_preset: name of the run configuration; None for a job without one.
        options: instance of the job's frozen dataclass, whose keys are set as `key=value` too.
        check: raises InputError for settings that exclude each other, before anything is read, also in a dry run.
            Suggestions for unknown keys and names must pass it.
        plan: the lines of `--dry-run`: what `run` would do.
        presets: source of presets; `vse.presets` except in tests.
        argv: arguments; those of the process by default.
    """
    before = interrupts.heed(job)
    try:
        given = sys.argv[1:] if argv is None else argv
        request = _read(job, description, default_preset, options, presets, check, given)
        if request is None:
            return 0
        is_dry = isinstance(request, _DryRun)
        checked = request.request if isinstance(request, _DryRun) else request
        check_addresses(checked.options, checked.workspace, checked.tracking, foresees=is_dry and job != "status")
        if isinstance(request, _DryRun):
            _show(request.request, plan)
            return 0
        result = run(request)
        _point_out(job, str(result))
        sys.stdout.flush()
        print(redact_text(str(result)), flush=True)
        return 0
    except InputError as error:
        return _refuse(job, error)
    except BrokenPipeError:  # the reader has closed the pipe, as in `--help | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing is left to fail at exit
        return 128 + signal.SIGPIPE
    except (KeyboardInterrupt, SystemExit) as error:
        if (number := interrupts.signal_behind(error)) is None:
            raise
        return _interrupted(job, number)
    except Exception as error:
        cause = getattr(error, "cause", None)  # what a Ray task raised
        if isinstance(cause, InputError):
            return _refuse(job, cause)
        for failure in (error, cause):
            if isinstance(failure, Diverged | TrialsFailedError):  # the same command may fail again
                _say(f"{job}: {redact_text(' '.join(str(failure).split()))}; {_KEPT}")
                return 1
        stated = str(error) if isinstance(error, PlacementError | WorkersLostError) else ""
        if line := stated or storage_failure(error) or memory_failure(error):
            _say(f"{job}: {redact_text(' '.join(line.split()))}; {_STAYS}")
            return 1
        print(redact_text(traceback.format_exc()), file=sys.stderr, end="")
        _say(f"{job}: failed; {_STAYS}")
        return 1
    finally:
        interrupts.restore(before)


def _point_out(job: str, summary: str) -> None:
    """Name the outputs for people; the last line is for programs."""
    with contextlib.suppress(OSError, InputError, KeyError, TypeError, AttributeError):
        folder, name = Folder.of_file(summary)
        outputs = folder.read_json(name)["outputs"]
        for key in (key for key in _FOR_PEOPLE if key in outputs):
            _say(f"{job}: {redact_text(outputs[key])}")


def _refuse(job: str, error: InputError) -> int:
    _say(f"{job}: {redact_text(' '.join(str(error).split()))}")
    return WRONG_INPUT


def _interrupted(job: str, number: int) -> int:
    interrupts.print_if_possible(f"{job}: stopped; {_STAYS}")
    return 128 + number


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@dataclass(frozen=True, slots=True)
class _DryRun:
    request: Request


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        if re.search(r"unrecognized arguments: --preset\b", message):
            message = "--preset: this job has no run configuration; its own keys set everything"
        raise InputError(f"{message}; see --help")


def _read(
    job: str,
    description: str,
    default_preset: str | None,
    options: Any,
    presets: Presets | None,
    check: Callable[[Request], object] | None,
    argv: Sequence[str],
) -> Request | _DryRun | None:
    program = sys.argv[0] if sys.argv[0].startswith("vse ") else f"python jobs/{job}.py"
    parser = _Parser(prog=program, description=description, add_help=False, allow_abbrev=False)
    parser.add_argument("-h", "--help", action="store_true", help="this text with every key; starts nothing")
    parser.add_argument("--workspace", metavar="URI", help="where results go (else $VSE_WORKSPACE, else ./workspace)")
    parser.add_argument("--tracking", metavar="URI", help="MLflow (else $MLFLOW_TRACKING_URI, else the workspace)")
    if default_preset is not None:
        default = f"run configuration (default: {default_preset}; names are listed below)"
        parser.add_argument("--preset", metavar="NAME|FILE.json", default=default_preset, help=default)
    parser.add_argument("--dry-run", action="store_true", help="validate the request and print the plan; write nothing")
    parser.add_argument(
        "changes",
        metavar="key=value",
        nargs="*",
        help="a setting; --help lists the keys of the given preset and components, as in data=karpathy --help",
    )
    for token in argv:
        refuse_undecodable(token)
    arguments = parser.parse_intermixed_args(list(argv))

    chosen = getattr(arguments, "preset", None)
    if default_preset is not None and presets is None:
        from vse import presets as shipped  # after the arguments are known to make sense

        presets = shipped
    typed = _pairs(arguments.changes, options, presets.names() if presets is not None else ())

    def build(preset: str | None, changes: Mapping[str, Any]) -> Request:
        request = _request(job, arguments, preset, changes, default_preset, options, presets)
        if check is not None and not arguments.help:
            check(request)
        return request

    try:
        request = build(chosen, typed)
    except UnknownError as error:
        raise tried(error, job, chosen, typed, build) from None
    if arguments.help:
        _help(parser, request.config, request.options, presets)
        return None
    return _DryRun(request) if arguments.dry_run else request


def _request(
    job: str,
    arguments: argparse.Namespace,
    chosen: str | None,
    changes: Mapping[str, Any],
    default_preset: str | None,
    options: Any,
    presets: Presets | None,
) -> Request:
    run_config, changed = None, set()
    if chosen is not None:
        assert presets is not None
        assert default_preset is not None
        run_config, options, changed = _load(chosen, default_preset, options, presets)
    job_keys = {f.name for f in fields(options)} if options is not None else set()
    run_keys = {f.name for f in fields(run_config)} if run_config is not None else set()
    assert not job_keys & run_keys, f"{job}: options and run configuration share {sorted(job_keys & run_keys)}"
    for key, value in changes.items():
        if key.split(".")[0] not in job_keys | run_keys:
            every = _joined(*(each for each in (options, run_config) if each is not None))
            configuration.override(every, {key: value})  # raises with hints of all keys
    for_job = {k: v for k, v in changes.items() if k.split(".")[0] in job_keys}
    for_run = {k: v for k, v in changes.items() if k not in for_job}
    typed, as_named = tuple(for_run), run_config
    if for_job:
        for_job = configuration.spelled_out(options, for_job)
        options = configuration.override(options, for_job)
    if run_config is not None:
        for_run = configuration.spelled_out(run_config, for_run)
        run_config = configuration.validate(configuration.override(run_config, for_run))
    if options is not None:
        options = configuration.validate(options)
    for settings in (run_config, options):
        refuse_credentials(configuration.flatten(settings) if settings is not None else {})
    workspace = workspace_address(arguments.workspace)
    return Request(
        job=job,
        workspace=workspace,
        preset=chosen,
        config=by_name(run_config, workspace),
        options=by_name(options, workspace),
        changed=frozenset(changed | set(for_job) | set(for_run)),
        tracking=arguments.tracking,
        overrides=_overrides(typed, as_named, run_config),
    )


def _joined(*configs: Any) -> Any:
    """One configuration with the fields of several, which have none in common."""
    every = [(config, spec, get_type_hints(type(config))[spec.name]) for config in configs for spec in fields(config)]
    joined = make_dataclass(
        "Joined",
        [(spec.name, hint, field(metadata=spec.metadata)) for _, spec, hint in every],
        frozen=True,
        kw_only=True,
    )
    return joined(**{spec.name: getattr(config, spec.name) for config, spec, _ in every})


def _overrides(typed: Iterable[str], preset: Any, config: Any) -> tuple[str, ...]:
    """The typed keys of a run under which something differs from the preset."""
    if preset is None:
        return ()
    before, absent = configuration.flatten(preset), object()
    differing = [key for key, value in configuration.flatten(config).items() if before.get(key, absent) != value]
    return tuple(key for key in typed if any(each == key or each.startswith(f"{key}.") for each in differing))


def _load(chosen: str, default_preset: str, options: Any, presets: Presets) -> tuple[Any, Any, set[str]]:
    """(run configuration, options, keys set) of a preset, or of a JSON file, which may name its base as "preset"."""
    if not chosen.partition("?")[0].endswith(".json"):
        return presets.preset(chosen), options, set()
    folder, name = Folder.of_file(chosen)
    try:
        data = json.loads(folder.read_bytes(name))
    except FileNotFoundError:
        raise InputError(f"--preset {chosen}: {os.strerror(errno.ENOENT)}") from None
    except StorageError:
        raise
    except OSError as error:
        raise InputError(f"--preset {chosen}: {error.strerror or error}") from None
    except InputError as error:
        raise InputError(f"--preset {error}") from None
    except ValueError as error:
        raise InputError(f"--preset {chosen}: not JSON: {error}") from None
    if not isinstance(data, dict):
        raise InputError(f"--preset {chosen}: expected an object of settings, got {type(data).__name__}")
    if data.keys() == {"preset", "changed"}:  # a run's preset.json (`training.origin`)
        raise InputError(
            f"--preset {chosen}: only names the origin of a run's configuration; give the config.json in its folder"
        )
    base = presets.preset(str(data.pop("preset", default_preset)))
    own = {f.name for f in fields(options)} if options is not None else set()
    for_job = {k: v for k, v in data.items() if k.split(".")[0] in own}
    for_run = {k: v for k, v in data.items() if k not in for_job}
    loaded = configuration.from_dict(base, for_run, chosen)
    if for_job:
        options = configuration.from_dict(options, for_job, chosen)
    return loaded, options, set(configuration.spelled_out(base, configuration.dotted(data)))


def _pairs(tokens: Iterable[str], options: Any, presets: Container[str]) -> dict[str, str | list[str]]:
    """Key -> value; of keys that may be given several times, the list of all values."""
    keys = configuration.walk(options) if options is not None else ()
    repeated = {key for key, spec, _, _ in keys if spec.metadata.get("repeated")}
    changes: dict[str, Any] = {}
    for token in tokens:
        key, equals, value = token.partition("=")
        if token in presets:
            raise InputError(f"{token}: expected key=value; did you mean --preset {token}?")
        if not equals or not key:
            raise InputError(f'{token}: expected key=value; quote a value with spaces ("key=a value"); see --help')
        if key in repeated:
            changes.setdefault(key, []).append(value)
        elif key in changes:
            raise InputError(f"{key}: given twice, as {changes[key]} and {value}")
        else:
            changes[key] = value
    return changes


def _help(parser: argparse.ArgumentParser, run_config: Any, options: Any, presets: Presets | None) -> None:
    print(parser.format_help())
    if presets is not None:
        names = " ".join(presets.names())
        print("presets:\n" + textwrap.fill(names, 118, initial_indent="  ", subsequent_indent="  ") + "\n")
    for title, keys in (("options of this job:", options), ("run configuration:", run_config)):
        if keys is not None:
            print(title)
            print("\n".join(help_lines(keys)) + "\n")


def _show(request: Request, plan: Callable[[Request], Iterable[str]] | None) -> None:
    from vse.cluster.runtime import set_up_logging  # log lines of data readers belong to the plan

    set_up_logging()
    existing = existing_names(request.options, request.workspace)
    checked = ["keys and values of settings", *(f"that {name} is there" for name in existing)]
    lines = list(plan(request)) if plan is not None else [f"checked: {', '.join(checked)}; nothing else"]
    print(f"{request.job}: dry run, nothing is started or written")
    print(f"workspace {redact_text(request.workspace)}")
    for keys in (request.options, request.config):
        if keys is not None:
            for key, value in configuration.flatten(keys).items():
                print(f"  {key}={json.dumps(redact(value, key))}" + ("  (set)" if key in request.changed else ""))
    for line in lines:
        print(one_line(redact_text(line)))
