"""Networks that answer a question by reading a story: memory networks and one without a memory.

Letters in shape comments: stories of a batch B, sentences of a story S, words of a sentence J,
width d, words of the vocabulary V, hops (or passes) K. All networks have

- ``forward(sentences, questions)``, which gives :class:`Answered`;
- ``loss(sentences, questions, answers, facts)``, the mean over the batch, where facts are the
  numbers of the supporting sentences; only some networks learn from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, multi_margin_loss

from posenc.metrics.stories import word_positions

# As Sukhbaatar et al. (2015), section 4.2; large embeddings attend to single sentences too early.
DEVIATION = 0.1
# As Weston et al. (2015, https://arxiv.org/abs/1502.05698), section 4.
MARGIN = 0.1


@dataclass(frozen=True)
class Sizes:
    """What a network must know of the stories.

    Attributes
    ----------
    vocabulary
        Words, with number 0 for no word.
    sentences
        Of a story.
    words
        Of the longest sentence or question.
    """

    vocabulary: int
    sentences: int
    words: int


class Answered(NamedTuple):
    """What a network says.

    Attributes
    ----------
    scores
        [B, V]: of each word as the answer.
    focus
        [B, K, S]: how much each hop looks at each sentence (its scale depends on the network);
        None without a memory.
    """

    scores: Tensor
    focus: Tensor | None


FactNumbers = TypeVar("FactNumbers", Tensor, NDArray[np.int64])


def turn_facts(facts: FactNumbers, passes: int) -> FactNumbers:
    """The supporting sentence of each pass, int [B, passes], from all in order, int [B, facts].

    Passes after the last of them look at it again.
    """
    return facts[:, [min(number, facts.shape[1] - 1) for number in range(passes)]]


class Sentences(nn.Module):
    """Sentences as weighted sums of word embeddings, in several embeddings at once.

    A sentence is Σ_j l_j ∘ E x_j for each embedding E, where l is
    :func:`posenc.metrics.stories.word_positions`, or 1 (a bag of words).

    Parameters
    ----------
    sizes
        Of the stories.
    width
        d.
    count
        Embeddings.
    has_positions
        Whether words are weighted by their place in the sentence.
    """

    weights: Tensor  # [J + 1, J, d]

    def __init__(self, sizes: Sizes, width: int, count: int, has_positions: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(sizes.vocabulary, count * width)
        nn.init.normal_(self.embed.weight, std=DEVIATION)
        self._shape = (count, width)
        # By length of a sentence; what is no word counts for nothing.
        weights = torch.zeros(sizes.words + 1, sizes.words, width)  # [J + 1, J, d]
        for words in range(1, sizes.words + 1):
            known = torch.from_numpy(word_positions(words, width)) if has_positions else 1.0
            weights[words, :words] = known
        self.register_buffer("weights", weights, persistent=False)

    def forward(self, words: Tensor) -> Tensor:
        """From words, int [..., J], to sentences, [..., count, d]."""
        weights = self.weights[(words > 0).sum(-1), : words.shape[-1]]  # [..., J, d]
        vectors = self.embed(words).unflatten(-1, self._shape)  # [..., J, count, d]
        return (vectors * weights.unsqueeze(-2)).sum(-3)  # [..., count, d]

    def matrix(self, place: int) -> Tensor:
        """One of the embeddings, [V, d]."""
        return self.embed.weight.unflatten(1, self._shape)[:, place]


class BagOfWords(nn.Module):
    """A control without a memory: one hidden layer on the numbers of words.

    It sees how often each word is in the story and in the question, and no order.
    """

    def __init__(self, sizes: Sizes, width: int) -> None:
        super().__init__()
        self._vocabulary = sizes.vocabulary
        self.layers = nn.Sequential(
            nn.Linear(2 * sizes.vocabulary, width), nn.Tanh(), nn.Linear(width, sizes.vocabulary)
        )

    def forward(self, sentences: Tensor, questions: Tensor) -> Answered:
        """Answer questions, int [B, J], about sentences, int [B, S, J]."""
        counts = [self._counts(sentences.flatten(1)), self._counts(questions)]  # [B, V] each
        return Answered(self.layers(torch.cat(counts, dim=1)), None)

    def loss(self, sentences: Tensor, questions: Tensor, answers: Tensor, facts: Tensor) -> Tensor:
        """Cross-entropy of the answers; facts are not used."""
        return cross_entropy(self(sentences, questions).scores, answers)

    def _counts(self, words: Tensor) -> Tensor:
        counts = torch.zeros(len(words), self._vocabulary)  # [B, V]
        counts.scatter_add_(1, words, (words > 0).float())
        return counts


class StronglySupervised(nn.Module):
    """Supporting sentences found one after the other, then a word that answers.

    With question x and found sentences o_1 ... o_k: o_k = argmax_i s_O([x, o_1, ..., o_k-1], m_i)
    and answer = argmax_w s_R([x, o_1, ..., o_k], w), where s is the inner product of summed
    embeddings (Weston, Chopra & Bordes, 2015, https://arxiv.org/abs/1410.3916, equations 2 to 6).
    Learned from which sentences support, by their margin ranking loss over all false candidates.
    Instead of their features of write time, each sentence has a learned vector of its place.
    """

    def __init__(self, sizes: Sizes, width: int, facts: int, has_positions: bool) -> None:
        super().__init__()
        self._facts = facts
        # Embeddings of a candidate, of the question, and of the sentences found before.
        self.match = Sentences(sizes, width, 1 + facts, has_positions)
        self.times = nn.Parameter(DEVIATION * torch.randn(facts, sizes.sentences, width))
        # Embeddings of the question and of the sentences found.
        self.respond = Sentences(sizes, width, 1 + facts, has_positions)
        self.words = nn.Parameter(DEVIATION * torch.randn(sizes.vocabulary, width))

    def forward(
        self, sentences: Tensor, questions: Tensor, facts: Tensor | None = None
    ) -> Answered:
        """Answer questions, int [B, J], about sentences, int [B, S, J].

        Where facts, int [B, K], are given, the network goes on with them, whatever it finds.
        """
        memory = self.match(sentences)  # [B, S, 1 + K, d]
        state = self.match(questions)[:, 1]  # [B, d]
        replies = self.respond(sentences)  # [B, S, 1 + K, d]
        reply = self.respond(questions)[:, 0]  # [B, d]
        every = torch.arange(len(sentences))
        focus = []
        for hop in range(self._facts):
            candidates = memory[:, :, 0] + self.times[hop]  # [B, S, d]
            scores = (candidates @ state.unsqueeze(-1)).squeeze(-1)  # [B, S]
            fact = scores.argmax(dim=1) if facts is None else facts[:, hop]  # [B]
            if hop + 1 < self._facts:
                state = state + memory[every, fact, 2 + hop]  # [B, d]
            reply = reply + replies[every, fact, 1 + hop]  # [B, d]
            focus.append(scores)
        return Answered(reply @ self.words.T, torch.stack(focus, dim=1))

    def loss(self, sentences: Tensor, questions: Tensor, answers: Tensor, facts: Tensor) -> Tensor:
        """Margin ranking loss of each supporting sentence and of the answer."""
        said = self(sentences, questions, facts)
        loss = multi_margin_loss(said.scores, answers, margin=MARGIN)
        for hop in range(self._facts):
            loss = loss + multi_margin_loss(said.focus[:, hop], facts[:, hop], margin=MARGIN)
        return loss


class EndToEnd(nn.Module):
    """End-to-end memory network: soft attention over sentences, several times.

    u_1 = Σ_j l_j ∘ B q_j; in hop k p = softmax(u_k · m_i) with m_i = Σ_j l_j ∘ A_k x_ij + T_A(i),
    and u_k+1 = u_k + Σ_i p_i c_i with c_i = Σ_j l_j ∘ C_k x_ij + T_C(i); answer = softmax(W u_K+1).
    Adjacent weight tying: A_k+1 = C_k, B = A_1, W = C_K transposed, and the same of T
    (Sukhbaatar et al., 2015, sections 2 and 4.1, https://arxiv.org/abs/1503.08895).

    In its first training steps there is no softmax: their linear start (section 4.2), without which
    small networks seldom learn to look twice. Theirs ends when the validation loss stops falling,
    this one after a fixed number of steps; evaluation always has the softmax.
    """

    steps: Tensor

    def __init__(
        self, sizes: Sizes, width: int, hops: int, has_positions: bool, linear_steps: int
    ) -> None:
        super().__init__()
        self._hops = hops
        # A_1 and C_1 ... C_K.
        self.sentences = Sentences(sizes, width, 1 + hops, has_positions)
        self.times = nn.Parameter(DEVIATION * torch.randn(sizes.sentences, 1 + hops, width))
        self._linear_steps = linear_steps
        # In the state, so that a training that was killed goes on in the same phase.
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, sentences: Tensor, questions: Tensor) -> Answered:
        """Answer questions, int [B, J], about sentences, int [B, S, J]; focus is attention."""
        is_linear = self.training and int(self.steps) < self._linear_steps
        memory = self.sentences(sentences) + self.times  # [B, S, 1 + K, d]
        state = self.sentences(questions)[:, 0]  # [B, d]
        focus = []
        for hop in range(self._hops):
            scores = (memory[:, :, hop] @ state.unsqueeze(-1)).squeeze(-1)  # [B, S]
            pattern = scores if is_linear else scores.softmax(dim=1)  # [B, S]
            state = state + (pattern.unsqueeze(1) @ memory[:, :, hop + 1]).squeeze(1)  # [B, d]
            focus.append(pattern)
        scores = state @ self.sentences.matrix(self._hops).T  # [B, V]
        return Answered(scores, torch.stack(focus, dim=1))

    def loss(self, sentences: Tensor, questions: Tensor, answers: Tensor, facts: Tensor) -> Tensor:
        """Cross-entropy of the answers; facts are not used."""
        loss = cross_entropy(self(sentences, questions).scores, answers)
        if self.training:
            self.steps += 1
        return loss


class Dynamic(nn.Module):
    """Dynamic memory network: a gated recurrent unit goes over the sentences several times.

    In each pass the gates g_t = σ(W_2 tanh(W_1 z + b_1) + b_2) depend on the sentence c_t, the
    question q and the memory m, the episode is the last of
    h_t = g_t GRU(c_t, h_t-1) + (1 - g_t) h_t-1, and m becomes GRU(episode, m), from m = q on.
    (Kumar et al., 2016, sections 2.1 to 2.4, https://arxiv.org/abs/1506.07285.) Gates are learned
    from the supporting sentences too; passes after the last of them look at it again. An answer
    has one word.

    Sentences are read as in the same authors' next network: weighted sums of word embeddings, and
    over them a gated recurrent unit in both directions, whose states are added (Xiong et al., 2016,
    section 3.1, https://arxiv.org/abs/1603.01417). With the first one's unit over all words of the
    story the gates only began to find a second fact after several times as many steps.
    """

    def __init__(self, sizes: Sizes, width: int, passes: int) -> None:
        super().__init__()
        self._passes = passes
        self.sentences = Sentences(sizes, width, 1, True)
        # PyTorch's own scale: the small one is for attention.
        nn.init.normal_(self.sentences.embed.weight)
        self.read = nn.GRU(width, width, batch_first=True, bidirectional=True)
        self.ask = nn.GRU(width, width, batch_first=True)
        self.similarity = nn.Linear(width, width, bias=False)
        self.hidden = nn.Linear(7 * width + 2, width)
        self.gate = nn.Linear(width, 1)
        self.episode = nn.GRUCell(width, width)
        self.remember = nn.GRUCell(width, width)
        self.respond = nn.GRUCell(width, width)
        self.answer = nn.Linear(width, sizes.vocabulary)

    def forward(self, sentences: Tensor, questions: Tensor) -> Answered:
        """Answer questions, int [B, J], about sentences, int [B, S, J]; focus is gates' logits."""
        facts = self.facts(sentences)  # [B, S, d]
        question = self.question(questions)  # [B, d]
        memory, focus = question, []
        for _ in range(self._passes):
            logits = self.gates(facts, question, memory)  # [B, S]
            state = torch.zeros_like(memory)  # [B, d]
            for place in range(facts.shape[1]):
                state = self.step(facts[:, place], logits[:, place].sigmoid(), state)
            memory = self.remember(state, memory)  # [B, d]
            focus.append(logits)
        # The first word of an answer follows no word, so that part of the unit's input is left out.
        answer = self.answer(self.respond(question, memory))  # [B, V]
        return Answered(answer, torch.stack(focus, dim=1))

    def loss(self, sentences: Tensor, questions: Tensor, answers: Tensor, facts: Tensor) -> Tensor:
        """Cross-entropy of the answer, and of each pass's gates with the supporting sentence."""
        said = self(sentences, questions)
        loss = cross_entropy(said.scores, answers)
        turns = turn_facts(facts, self._passes)  # [B, K]
        wanted = nn.functional.one_hot(turns, sentences.shape[1]).float()  # [B, K, S]
        gates = binary_cross_entropy_with_logits(said.focus, wanted, reduction="none")  # [B, K, S]
        return loss + gates.sum(dim=(1, 2)).mean()

    def facts(self, sentences: Tensor) -> Tensor:
        """Sentences, int [B, S, J], each with what stands around it, [B, S, d]."""
        states, _ = self.read(self.sentences(sentences)[:, :, 0])  # [B, S, 2 d]
        return states.unflatten(-1, (2, -1)).sum(-2)  # [B, S, d]

    def question(self, questions: Tensor) -> Tensor:
        """The state, [B, d], after the last word of questions, int [B, J]."""
        states, _ = self.ask(self.sentences.embed(questions))  # [B, J, d]
        return states[torch.arange(len(questions)), (questions > 0).sum(-1) - 1]

    def gates(self, facts: Tensor, question: Tensor, memory: Tensor) -> Tensor:
        """Logits, [B, S], of the gates of facts, [B, S, d]; question and memory are [B, d]."""
        about = [question.unsqueeze(1), memory.unsqueeze(1)]  # [B, 1, d] each
        features = [facts, *(vector.expand_as(facts) for vector in about)]
        for vector in about:
            alike = (self.similarity(facts) * vector).sum(-1, keepdim=True)  # [B, S, 1]
            features += [facts * vector, (facts - vector).abs(), alike]
        z = torch.cat(features, dim=-1)  # [B, S, 7 d + 2]
        return self.gate(self.hidden(z).tanh()).squeeze(-1)

    def step(self, fact: Tensor, gate: Tensor, state: Tensor) -> Tensor:
        """One step of an episode: from the state, [B, d], a fact, [B, d], and its gate, [B]."""
        gate = gate.unsqueeze(-1)  # [B, 1]
        return gate * self.episode(fact, state) + (1 - gate) * state


MemoryNetwork = BagOfWords | StronglySupervised | EndToEnd | Dynamic
