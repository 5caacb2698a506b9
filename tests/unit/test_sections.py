"""Which files of data/config an edit of params.yaml changes, and so which jobs it reaches."""

from __future__ import annotations

from posenc.study import configs
from posenc.study.params import validate

from .synthetic import BUNDLED, EVALUATING, OF_EXAMINED, OF_MODELS, OF_WEIGHTS
from .test_params import changed, raw  # noqa: F401


def test_each_section_reaches_only_the_steps_that_read_it(raw):  # noqa: F811
    """An edit changes exactly these files of data/config, and so exactly their readers."""
    before = {str(path): value for path, value in configs.sections(validate(raw))}

    def of_each_model(job: str) -> set[str]:
        return {f"{job}/{model}.json" for model in ("minilm", "decoder")}

    def of_all(job: str) -> set[str]:
        """Also those of the model that is only evaluated."""
        return {*of_each_model(job), f"{job}/smollm2.json"}

    def measured(*names: str) -> list[str]:
        return [f"measurements/{name}" for name in names]

    schemes = raw["studies"]["default"]["schemes"]
    assert len(schemes) == 5
    # Under the conditions that they list themselves.
    chosen = measured("choices", "joint_order", "token_classes")
    evaluating = measured(*EVALUATING)
    for key, value, expected in (
        ("models.decoder.source.steps", 7, {"models/decoder.train.json"}),
        ("models.decoder.source.seed", 7,
         {"models/decoder.train.json", "models/decoder.corpus.json"}),
        ("models.decoder.max_tokens", 64,
         {f"{job}/decoder.json"
          for job in ("tokens/tokenize", "tokens/texts", "activations", "masks", "evaluations",
                      *measured("norms", "layer_norm", "hard_attention", "position_embeddings",
                                "position_heads", *OF_EXAMINED, *OF_MODELS, *OF_WEIGHTS))
          if job != "measurements/conditions"}),
        ("models.minilm.source.sha256", "0" * 64, {"models/minilm.fetch.json"}),
        ("datasets.sample_reviews.evaluation.documents", 7,
         {*of_all("tokens/tokenize"), *(f"tokens/tokenize/{scheme}.json" for scheme in schemes),
          "trials/downstream/minilm.json", "trials/pretraining/study.json",
          "trials/tokenizers/study.json"}),
        ("datasets.imdb.evaluation.documents", 7, set()),  # of another study
        ("datasets.sample_reviews.text.normalization", "none",
         {"documents/sample_reviews.documents.json", "trials/tokenizers/study.json"}),
        # Beside the phases that DVC's stages follow: the study does not name it.
        ("datasets.imdb.text.normalization", "none", {"others/documents/imdb.documents.json"}),
        ("models.bert.source.revision", "0" * 40, {"others/models/bert.fetch.json"}),
        ("figures.perplexity.height", 3.0, {"figures/perplexity.json"}),
        ("measurements.similarity.seed", 9, of_each_model("measurements/similarity")),
        ("measurements.perplexity.seed", 9, of_each_model("measurements/perplexity")),
        ("activations.dtype", "float32", of_each_model("activations")),
        ("measurements.norms.seed", 9, of_each_model("measurements/norms")),
        ("measurements.conditions.seed", 9, of_all("measurements/conditions")),
        ("measurements.conditions.documents", 9,  # the model that is only evaluated has its own
         {*of_all("measurements/conditions"), *of_each_model("evaluations")}),
        ("studies.default.evaluations.smollm2.documents", 9,
         {"evaluations/smollm2.json", "measurements/choices/smollm2.json"}),
        ("masks.fitted.steps", 9, {"masks/decoder.json"}),  # it is for decoders
        ("sweeps.slope.values", [0.1, 0.2],
         {"evaluations/decoder.json", "measurements/conditions/decoder.json"}),
        ("datasets.sample_reviews.calibration.documents", 7, of_all("tokens/texts")),
        ("conditions.zero.position", "intact",
         {path for job in ("evaluations", *chosen, *evaluating) for path in of_all(job)}
         | of_each_model("activations")),
        ("conditions.mean.position", "zero",
         {path for job in ("evaluations", *evaluating) for path in of_each_model(job)}),
        ("studies.default.conditions", ["intact"],
         {"figures/runs.json", *of_each_model("activations"),
          *of_each_model("measurements/similarity"), *of_each_model("measurements/perplexity"),
          *(path for job in ("evaluations", *chosen, *evaluating) for path in of_all(job)),
          *(path for job in measured(*BUNDLED) for path in of_each_model(job))}),
        ("measurements.probes.seed", 9,
         {*of_each_model("measurements/probes"),
          *(f"measurements/scheme_probes/{scheme}.json" for scheme in schemes)}),
        ("measurements.position_embeddings.rows", 99,
         {*of_each_model("measurements/position_embeddings"),
          "measurements/position_embeddings/sinusoid.json",
          "measurements/position_embeddings/gaussian.json"}),
        ("matrices.gaussian.seed", 9,
         {f"{job}/gaussian.json" for job in measured("position_embeddings", "position_heads")}),
        ("measurements.lags.seed", 9, {"measurements/lags.json"}),
        ("models.scheme_none.source.steps", 9, {"models/scheme_none.train.json"}),
        ("measurements.scaling.seed", 9, {"measurements/scaling.json"}),
        ("measurements.sample_scores.tokens", 9, of_all("measurements/sample_scores")),
        # A further seed leaves the trials of the others as they are.
        ("experiments.superposition.digits.seeds", [0, 1, 2, 3],
         {"measurements/superposition.json"}),
        ("experiments.superposition.digits.confidence", 0.9, {"measurements/superposition.json"}),
        ("experiments.superposition.digits.pairs", 99, {"trials/superposition/study.json"}),
        ("experiments.downstream.sample.max_tokens", 9, {"trials/downstream/minilm.json"}),
        ("experiments.downstream.imdb.max_tokens", 9, set()),  # of another study
        ("models.bert.title", "Another", set()),  # of another study, and no step's
        ("models.minilm.title", "Another", set()),
        ("studies.default.title", "Another", set()),
        ("studies.real.title", "Another", set()),
    ):  # fmt: skip
        after = {str(p): v for p, v in configs.sections(validate(changed(raw, key, value)))}
        assert after.keys() == before.keys()
        differing = {path for path in before if before[path] != after[path]}
        of_documents = {f"data/config/{phase}/study.json" for phase in ("numbers", "page")}
        assert differing - of_documents == {f"data/config/{path}" for path in expected}, key
