"""AdamW for processes that compile nothing."""

from inspect import unwrap

import torch


class EagerAdamW(torch.optim.AdamW):
    """torch's AdamW, step for step, without its notes to `torch.compile`.

    These import the compiler when they are first called, with 870 modules, a second of CPU time and 140 MB, in every
    process that trains: a good part of what a short trial of a sweep takes to begin. Nothing here is compiled.
    """

    add_param_group = unwrap(torch.optim.AdamW.add_param_group)
    zero_grad = unwrap(torch.optim.AdamW.zero_grad)
    state_dict = unwrap(torch.optim.AdamW.state_dict)
    load_state_dict = unwrap(torch.optim.AdamW.load_state_dict)
    step = torch.no_grad()(unwrap(torch.optim.AdamW.step))
