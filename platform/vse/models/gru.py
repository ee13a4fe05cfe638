"""A one-layer GRU over word tables that computes every distinct prefix once.

Captions share beginnings, and a relational triple shares them with its negatives. A recurrent state depends on the
prefix alone, so sequences that agree up to a word share the states up to it. The input projection is computed once per
distinct word. Values and gradients equal those of `torch.nn.GRU`; on a CPU it takes about half the time for captions
and a quarter for triples with negatives. On CUDA, cuDNN's kernel runs over padded sequences: packing them would need
their lengths on the host, which stops the GPU. An exported graph has ONNX's own operator.
"""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn


class PrefixGRU(nn.Module):
    """GRU over rows of a table; its last state, at each sequence's true length, is the code of the sequence.

    Args:
        input_dim: dimension of a row of the table.
        dim: dimension of a state.
    """

    def __init__(self, input_dim: int, dim: int) -> None:
        super().__init__()
        self.gru = nn.GRU(input_dim, dim, batch_first=True)

    def forward(
        self,
        table: Float[Tensor, "words input"],
        sequences: Int[Tensor, "batch time"],
        lengths: Int[Tensor, " batch"],
    ) -> Float[Tensor, "batch dim"]:
        """Last states of sequences.

        Args:
            table: vectors of distinct words.
            sequences: row numbers of `table`.
            lengths: of the sequences, at least 1.

        Returns:
            Codes of shape (batch, dim).
        """
        if sequences.shape[0] == 0:
            # Encode something and keep nothing: every parameter stays in the graph, as distributed training asks.
            return self(table, sequences.new_zeros(1, 1), lengths.new_ones(1))[:0]
        if table.is_cuda or torch.onnx.is_in_onnx_export():
            states = self._padded(F.embedding(sequences, table), lengths)
            return states.gather(1, (lengths - 1)[:, None, None].expand(-1, 1, states.shape[2])).squeeze(1)
        order, finished = lengths.argsort(descending=True, stable=True), []
        for state, inverse, num_next in self._steps(table, sequences[order], lengths):
            if num_next < len(inverse):
                finished.append(F.embedding(inverse[num_next:], state))
        last = torch.cat(finished[::-1])
        return last[torch.argsort(order)]

    def states(
        self,
        table: Float[Tensor, "words input"],
        sequences: Int[Tensor, "batch time"],
        lengths: Int[Tensor, " batch"],
    ) -> Float[Tensor, "batch time dim"]:
        """States of sequences after every word.

        Args:
            table: vectors of distinct words.
            sequences: row numbers of `table`.
            lengths: of the sequences, at least 1.

        Returns:
            States of shape (batch, time, dim), zero after each length.
        """
        batch, time = sequences.shape
        if batch == 0:
            return self.states(table, sequences.new_zeros(1, max(1, time)), lengths.new_ones(1))[:0, :time]
        if table.is_cuda or torch.onnx.is_in_onnx_export():
            return self._padded(F.embedding(sequences, table), lengths) * within(lengths, time)[..., None]
        order = lengths.argsort(descending=True, stable=True)
        # Row 0 of all states stands for positions after a sequence's end.
        states, place, total = [table.new_zeros(1, self.gru.hidden_size)], torch.zeros(batch, time, dtype=torch.long), 1
        for t, (state, inverse, _) in enumerate(self._steps(table, sequences[order], lengths)):
            place[: len(inverse), t] = inverse + total
            states.append(state)
            total += len(state)
        return F.embedding(place[torch.argsort(order)], torch.cat(states))

    def _padded(self, x: Tensor, lengths: Tensor) -> Tensor:
        """States of padded sequences, undefined after each length."""
        return states_in_graph(self.gru, x, lengths) if torch.onnx.is_in_onnx_export() else self.gru(x)[0]

    def _steps(self, table: Tensor, ordered: Tensor, lengths: Tensor) -> Iterator[tuple[Tensor, Tensor, int]]:
        """For each position: states of the distinct prefixes, the one of each sequence, how many sequences continue.

        `ordered` holds the sequences from the longest to the shortest.
        """
        weights = dict(self.gru.named_parameters())
        # Under autocast products are of half precision; the recurrence adds up in the precision of the table.
        inputs = F.linear(table, weights["weight_ih_l0"], weights["bias_ih_l0"]).to(table.dtype)
        # active[t]: how many sequences are longer than t; they come first in the order.
        longest = int(lengths.max())
        active = (lengths[None, :] > torch.arange(longest)[:, None]).sum(1).tolist()
        state, parent = table.new_zeros(1, self.gru.hidden_size), torch.zeros(len(ordered), dtype=torch.long)
        for t in range(longest):
            num = active[t]
            nodes, inverse = torch.unique(parent[:num] * len(table) + ordered[:num, t], return_inverse=True)
            hidden = F.linear(state, weights["weight_hh_l0"], weights["bias_hh_l0"]).to(state.dtype)
            state = _cell(inputs, nodes % len(table), hidden, state, nodes // len(table))
            yield state, inverse, active[t + 1] if t + 1 < longest else 0
            parent = inverse


def _cell(inputs: Tensor, words: Tensor, hidden: Tensor, state: Tensor, parents: Tensor) -> Tensor:
    if len(state) == 1:
        hidden, state = hidden.expand(len(words), -1), state.expand(len(words), -1)
    else:
        # F.embedding, not indexing: its backward on a CPU is a sorted, deterministic sum.
        hidden, state = F.embedding(parents, hidden), F.embedding(parents, state)
    input_r, input_z, input_n = F.embedding(words, inputs).chunk(3, dim=1)
    hidden_r, hidden_z, hidden_n = hidden.chunk(3, dim=1)
    reset, update = torch.sigmoid(input_r + hidden_r), torch.sigmoid(input_z + hidden_z)
    return torch.lerp(torch.tanh(torch.addcmul(input_n, reset, hidden_n)), state, update)


class WordStates(nn.Module):
    """States of a bidirectional GRU at every word, the mean of both directions (SCAN).

    Args:
        input_dim: dimension of a row of the table.
        dim: dimension of a state in each direction.
    """

    def __init__(self, input_dim: int, dim: int) -> None:
        super().__init__()
        self.forward_gru, self.backward_gru = PrefixGRU(input_dim, dim), PrefixGRU(input_dim, dim)

    def forward(
        self,
        table: Float[Tensor, "words input"],
        sequences: Int[Tensor, "batch time"],
        lengths: Int[Tensor, " batch"],
    ) -> Float[Tensor, "batch time dim"]:
        """States of sequences at every word.

        Args:
            table: vectors of distinct words.
            sequences: row numbers of `table`.
            lengths: of the sequences, at least 1.

        Returns:
            Mean of both directions, (batch, time, dim), zero after each length.
        """
        forward = self.forward_gru.states(table, sequences, lengths)
        backward = self.backward_gru.states(table, reversed_rows(sequences, lengths), lengths)
        place = (lengths[:, None] - 1 - torch.arange(sequences.shape[1], device=lengths.device)).clamp_min(0)
        turned = backward.gather(1, place[..., None].expand_as(backward))
        return (forward + turned * within(lengths, sequences.shape[1])[..., None]) / 2


def within(lengths: Int[Tensor, " batch"], time: int | torch.SymInt) -> Bool[Tensor, "batch time"]:
    """Mask of a padded batch: True at positions within each length. In an exported graph, `time` is a symbol."""
    return torch.arange(time, device=lengths.device)[None, :] < lengths[:, None]


def reversed_rows(sequences: Int[Tensor, "batch time"], lengths: Int[Tensor, " batch"]) -> Int[Tensor, "batch time"]:
    """Each sequence reversed up to its length; padding stays at the end."""
    place = lengths[:, None] - 1 - torch.arange(sequences.shape[1], device=sequences.device)[None, :]
    return sequences.gather(1, place.clamp_min(0)) * (place >= 0)


def states_in_graph(
    gru: nn.GRU, x: Float[Tensor, "batch time input"], lengths: Int[Tensor, " batch"]
) -> Float[Tensor, "batch time dim"]:
    """States of the last layer of a GRU in an ONNX graph, of both directions side by side if it has two.

    ONNX's operator stops at the length of each sequence and gives zeros after it. It has the gates in another order
    than torch: update, reset, new.

    Args:
        gru: the GRU, of any number of layers.
        x: input vectors of padded sequences.
        lengths: of the sequences.

    Returns:
        States of shape (batch, time, dim), of both directions (batch, time, 2 dim).
    """
    suffixes = ("", "_reverse")[: 1 + gru.bidirectional]

    def stacked(name: str) -> Tensor:
        parts = (getattr(gru, f"{name}{suffix}").unflatten(0, (3, -1)) for suffix in suffixes)
        return torch.stack([part[[1, 0, 2]].flatten(0, 1) for part in parts])

    for layer in range(gru.num_layers):
        weights = [stacked(f"weight_{side}_l{layer}") for side in ("ih", "hh")]
        biases = torch.cat([stacked(f"bias_{side}_l{layer}") for side in ("ih", "hh")], dim=1)
        states = torch.onnx.ops.symbolic(
            "GRU",
            (x.transpose(0, 1), *weights, biases, lengths.int()),
            {
                "direction": "bidirectional" if gru.bidirectional else "forward",
                "hidden_size": gru.hidden_size,
                "linear_before_reset": 1,
            },
            dtype=x.dtype,
            shape=(x.shape[1], len(suffixes), x.shape[0], gru.hidden_size),
        )
        x = states.permute(2, 0, 1, 3).flatten(2)
    return x
