"""Names in ``params.yaml`` are of things that it defines, and parts of a study fit each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pydantic import ValidationError

from posenc.conditions.masks import beneath
from posenc.conditions.section import Condition
from posenc.conditions.semantics import semantics
from posenc.config.labels import display, labelled
from posenc.figures.catalogue import FIGURES
from posenc.models.section import Model, TrainSource
from posenc.study.declared import ALWAYS, OPTIONAL, Measurements
from posenc.study.definitions import Definitions
from posenc.study.explain import shown, suggestion
from posenc.study.names import RESERVED, check_names
from posenc.study.section import Study


def check(params: Definitions) -> None:
    """Refuse a name that is not defined, and a study whose parts do not fit each other.

    Raises
    ------
    ValueError
        It names the key, its value and what would be right.
    """
    for kind in RESERVED:
        check_names(kind, getattr(params, kind))
    if params.conditions.get("intact") != Condition():
        raise ValueError("conditions.intact must be there, with position: intact")
    _check_conditions(params)
    _check_labels(params)
    for key, study in params.studies.items():
        where = f"studies.{key}"
        if study.name != key:
            raise ValueError(f"{where}.name is {study.name!r}; it must be {key!r}, its key")
        for kind in ("models", "matrices", "datasets", "conditions", "sweeps"):
            _check_known(f"{where}.{kind}", getattr(study, kind), kind, getattr(params, kind))
        _check_known(f"{where}.schemes", study.schemes, "models", params.models)
        _check_known(f"{where}.evaluated", study.evaluated, "conditions", params.conditions)
        for name, own in study.evaluations.items():
            at = f"{where}.evaluations.{name}"
            _check_known(f"{at}.evaluated", own.evaluated, "conditions", params.conditions)
            _check_known(f"{at}.sweeps", own.sweeps, "sweeps", params.sweeps)
        _check_study(params, where, study)
        for kind in ("trained", "schemes"):
            corpora = getattr(study, kind).values()
            _check_known(f"{where}.{kind}", corpora, "datasets", params.datasets)
        _check_known(f"{where}.corpora", study.corpora, "datasets", params.datasets)
        if study.labelled is not None and study.labelled not in study.datasets:
            raise ValueError(
                f"{where}.labelled is {study.labelled!r}, which must be one of its datasets"
            )
        for kind in study.experiments.kinds:
            _check_experiment(params, where, study, kind)
        _check_choices(where, study)
        for name in study.schemes:
            if not isinstance(params.models[name].source, TrainSource):
                raise ValueError(
                    f"{where}.schemes names {name!r}, whose source.kind is "
                    f"{params.models[name].source.kind!r}: it must be 'train'"
                )
        for name in study.models:
            is_trained = isinstance(params.models[name].source, TrainSource)
            if is_trained and name not in study.trained:
                raise ValueError(
                    f"{where}.pretrained names {name!r}, whose source.kind is 'train': "
                    f"list it under {where}.trained with its data set"
                )
            if not is_trained and name in study.trained:
                raise ValueError(
                    f"{where}.trained names {name!r}, whose source.kind is "
                    f"{params.models[name].source.kind!r}: list it under {where}.pretrained"
                )
            _check_scheme(where, name, params.models[name])
        for model, dataset in {**study.trained, **study.schemes}.items():
            source, data = params.models[model].source, params.datasets[dataset]
            if source.split not in data.splits:
                raise ValueError(
                    f"models.{model}.source.split is {source.split!r}, which "
                    f"datasets.{dataset} does not have ({', '.join(data.splits)})"
                )
            if source.split == data.evaluation.split:
                raise ValueError(
                    f"models.{model} would be trained on the split {source.split!r} of "
                    f"{dataset}, which is its evaluation split: choose another"
                )
    for model in params.models:
        learned = [{**s.trained, **s.schemes} for s in params.studies.values()]
        corpora = {trained[model] for trained in learned if model in trained}
        if len(corpora) > 1:
            raise ValueError(
                f"the studies train {model!r} on {' and on '.join(sorted(corpora))}: these "
                f"are two models, give them two names"
            )


def _check_conditions(params: Definitions) -> None:
    """Conditions name masks that are there and that give what they are asked for."""
    for name, condition in params.conditions.items():
        where = f"conditions.{name}"
        _check_known(where, condition.masks(), "masks", params.masks)
        for part, key in ((condition.position, "position"), (condition.mask, "mask")):
            part = getattr(part, "profile", part)
            if getattr(part, "kind", None) != "learned":
                continue
            source = params.masks[part.mask]
            if key == "position" and not getattr(source, "learn_position", False):
                raise ValueError(
                    f"{where}.position names the mask {part.mask!r}, which learns no position: "
                    f"take one with method: fitted and learn_position: true"
                )
            if key == "position" and part.added != source.adds:
                how = "added to the embeddings" if source.adds else "in place of the embeddings"
                raise ValueError(
                    f"{where}.position.added is {str(part.added).lower()}, but the vectors of "
                    f"the mask {part.mask!r} were learned {how}: write added: "
                    f"{str(source.adds).lower()}, or name another mask"
                )
            if key == "mask" and getattr(source, "terms", True) == []:
                raise ValueError(f"{where}.mask names the mask {part.mask!r}, without terms")
    _check_named_conditions(params, "measurements", params.measurements)
    for name in params.masks:
        beneath(params.masks, name)
    for name, sweep in params.sweeps.items():
        _check_known(f"sweeps.{name}.conditions", sweep.conditions, "conditions", params.conditions)
        try:
            list(sweep.units(params.conditions))
        except ValidationError as error:
            problem = error.errors()[0]
            raise ValueError(
                f"sweeps.{name}: {sweep.key} cannot be {shown(problem['input'])}: "
                f"{problem['msg'].replace('Input should', 'it should')}"
            ) from None
        except ValueError as error:
            raise ValueError(f"sweeps.{name}: {error}") from None


def _check_named_conditions(params: Definitions, where: str, measurements: Measurements) -> None:
    """Measurements that name conditions name some that are there."""
    for name, section in measurements:
        if isinstance(named := getattr(section, "conditions", None), list):
            _check_known(f"{where}.{name}.conditions", named, "conditions", params.conditions)
    for name, controls in measurements.conditions.controls.items():
        _check_known(f"{where}.conditions.controls",
                     [name, *controls.model_dump().values()], "conditions",
                     params.conditions)  # fmt: skip


def _check_labels(params: Definitions) -> None:
    """A label is of something that is defined, and no two of a kind are shown alike."""
    labels, where = params.figures.style.labels, "figures.style.labels"
    kinds: dict[str, Iterable[str]] = {
        kind: getattr(params, kind) for kind in ("conditions", "models", "datasets", "matrices")
    }
    kinds["semantics"] = semantics.functions
    _check_known(where, labels, " or ".join(kinds), {n: n for k in kinds.values() for n in k})
    with labelled(labels):
        for kind, names in kinds.items():
            seen: dict[str, str] = {}
            for name in names:
                other = seen.setdefault(display(name), name)
                if other != name:
                    raise ValueError(
                        f"{where}.{name if name in labels else other}: the {kind} {other} and "
                        f"{name} are both shown as {display(name)!r}: give one another label"
                    )


def _check_experiment(params: Definitions, where: str, study: Study, kind: str) -> None:
    """A study's experiment is defined, and its data sets are those of the study."""
    name, known = getattr(study.experiments, kind), getattr(params.experiments, kind)
    where = f"{where}.experiments.{kind}"
    _check_known(where, [name], f"experiments.{kind}", known)
    section = known[name]
    if study.labelled is None and (hasattr(section, "datasets") or hasattr(section, "dataset")):
        raise ValueError(
            f"{where} is {name!r}, which learns from the study's labelled data set: name it "
            f"under labelled"
        )
    if hasattr(section, "datasets") and section.datasets != [study.labelled, *study.corpora]:
        raise ValueError(
            f"{where} is {name!r}, whose datasets are {section.datasets}: they must be "
            f"labelled and corpora of the study, {[study.labelled, *study.corpora]}"
        )
    if not hasattr(section, "dataset"):
        return
    if section.dataset != study.labelled:
        raise ValueError(
            f"{where} is {name!r}, whose dataset is {section.dataset!r}: it must be "
            f"labelled of the study, {study.labelled!r}"
        )
    if params.datasets[section.dataset].format != "imdb":
        raise ValueError(
            f"experiments.{kind}.{name}.dataset is {section.dataset!r}, which has no labels: "
            f"take one whose format is imdb"
        )


def _check_study(params: Definitions, where: str, study: Study) -> None:
    """What a study evaluates can be calibrated, and what it keeps needs no learned mask."""
    for name in study.conditions:
        condition = params.conditions[name]
        if condition.masks() or condition.segments or condition.of_pairs:
            raise ValueError(
                f"{where}.conditions names {name!r}, which needs a learned mask, segments, or "
                f"other rotation for some pairs: list it under {where}.evaluated"
            )
    measurements = params.parameters_of(study)
    _check_named_conditions(params, f"{where}.parameters", measurements)
    models = [params.models[name] for name in study.models if name in params.models]
    for name in study.all_conditions:
        reasons = [params.conditions[name].misfit(model.positions) for model in models]
        if models and all(reasons):
            raise ValueError(
                f"{where} names the condition {name!r}, which is for none of its models: "
                f"{reasons[0]}"
            )
    for name in study.models:
        if name in params.models:
            _check_sizes(params, where, study, name)
    beyond = [] if study.extrapolation is None else study.extrapolation.conditions
    _check_known(f"{where}.extrapolation.conditions", beyond, "conditions", params.conditions)
    if study.calibration is None:
        if study.refitted:
            raise ValueError(
                f"{where}.refitted names {study.refitted[0]!r}, whose masks are fitted to "
                f"calibration text: name a data set with some under {where}.calibration"
            )
        if study.retrained:
            raise ValueError(
                f"{where}.retrained names {study.retrained[0]!r}, which is trained on another "
                f"split of the data set of calibration text: name one under "
                f"{where}.calibration"
            )
        for name in study.all_conditions:
            if params.conditions[name].masks():
                raise ValueError(
                    f"{where} names the condition {name!r}, whose mask is learned from "
                    f"calibration text: name a data set with some under {where}.calibration"
                )
        for name in study.all_sweeps:
            for swept in params.sweeps[name].conditions:
                if params.conditions[swept].masks():
                    raise ValueError(
                        f"{where}.sweeps names {name!r}, whose condition {swept!r} has a mask "
                        f"that is learned from calibration text: name a data set with some "
                        f"under {where}.calibration"
                    )
        return
    _check_known(f"{where}.calibration", [study.calibration], "datasets", params.datasets)
    calibration = params.datasets[study.calibration].calibration
    if calibration is None:
        raise ValueError(
            f"{where}.calibration names {study.calibration!r}: give "
            f"datasets.{study.calibration} a calibration"
        )
    for model, dataset in study.trained.items():
        if dataset == study.calibration and params.models[model].source.split == (
            calibration.split
        ):
            raise ValueError(
                f"models.{model} is trained on the split {calibration.split!r} of {dataset}, "
                f"which masks are calibrated on: choose another"
            )
    split = measurements.retraining.split
    if study.retrained and calibration.split == split:
        raise ValueError(
            f"measurements.retraining.split is {split!r}, which masks are calibrated on in "
            f"{where}: choose another"
        )
    split = measurements.refits.split
    for model in study.refitted:
        if study.trained.get(model) == study.calibration and (
            params.models[model].source.split == split
        ):
            raise ValueError(
                f"measurements.refits.split is {split!r}, which models.{model} is trained on "
                f"in {where}: choose another"
            )


def _check_sizes(params: Definitions, where: str, study: Study, model: str) -> None:
    """Refuse conditions on layers or heads that a model lacks, where its sizes are known here."""
    section = params.models[model]
    if not isinstance(section.source, TrainSource):
        return
    for name in study.evaluation_of(model).evaluated:
        condition = params.conditions[name]
        if condition.misfit(section.positions) is not None:
            continue  # it is left out of the model's evaluations
        source = section.source
        if problem := condition.problem(source.n_layers, source.n_heads, section.positions):
            raise ValueError(
                f"{where} evaluates {model!r} under {name!r}: {problem}; leave it out under "
                f"{where}.evaluations.{model}.evaluated"
            )


def _check_scheme(where: str, name: str, model: Model) -> None:
    positions = getattr(model.source, "positions", "learned")
    if positions != "learned":
        raise ValueError(
            f"{where}.models names {name!r}, whose source.positions is {positions!r}: conditions "
            f"edit learned positions; list it under {where}.schemes"
        )


def _check_choices(where: str, study: Study) -> None:
    """The measurements and figures that a study names are there, and the figures can be drawn."""
    known = dict.fromkeys(OPTIONAL)
    for name in study.measurements or []:
        if name in ALWAYS:
            raise ValueError(f"{where}.measurements names {name!r}, which is always made: omit it")
    _check_known(f"{where}.measurements", study.measurements or [], "measurements", known)
    _check_known(f"{where}.figures", study.figures or [], "figures", FIGURES)
    for name in study.figures or []:
        if name == "extrapolation" and study.extrapolation is None:
            raise ValueError(
                f"{where}.figures names {name!r}, which shows texts longer than a model was "
                f"trained on: add {where}.extrapolation"
            )
        for kind in FIGURES[name].measurements:
            if kind not in study.measured:
                part = "measurements" if kind in OPTIONAL else "experiments"
                raise ValueError(
                    f"{where}.figures names {name!r}, which shows {kind!r}: "
                    f"add {kind} to {where}.{part}"
                )


def _check_known(where: str, names, kind: str, known: Mapping) -> None:
    for name in names:
        if name not in known:
            raise ValueError(
                f"{where} names {name!r}, which is not defined in {kind}{suggestion(name, known)}"
            )
