"""Versions of the library that did with a mask what a semantics says, as unbroken ranges."""

from __future__ import annotations

from posenc.report.tables import semantics


def test_versions_that_agree_make_ranges():
    def version(number: str, **agreeing: list[str]) -> dict:
        cases = [
            {"model": model, "implementation": implementation, "mask": mask,
             "agrees_with": agreeing.get(implementation, [])}
            for model, implementation, mask in (
                ("gpt2", "sdpa", "linear 0.1"), ("gpt2", "eager", "linear 0.1"),
                ("gpt2", "eager output_attentions", "linear 0.1"), ("bert", "flash", "linear 0.1"),
            )
        ]  # fmt: skip
        cases.append({"model": "gpt2", "implementation": "eager", "mask": "4-D log",
                      "agrees_with": agreeing.get("log", [])})  # fmt: skip
        return {"version": number, "status": "run", "cases": cases}

    record = {
        "versions": [
            version("1", sdpa=["a"], eager=["b"]), version("2", sdpa=["a", "b"], eager=["a"]),
            {"version": "2.5", "status": "not run"}, version("3", sdpa=["a"], log=["log_mask"]),
            version("4", eager=["a"], flash=["a"]), version("5", eager=["a"], log=["a"]),
        ]
    }  # fmt: skip

    def found(name: str) -> list[tuple[str, ...]]:
        return [tuple(span.values()) for span in semantics.ranges(record, name)]

    assert found("a") == [("sdpa", "1", "3"), ("eager", "2", "2"), ("eager", "4", "5")]
    assert found("b") == [("sdpa", "2", "2"), ("eager", "1", "1")]
    assert found("log_mask") == [("eager", "3", "3")], "of the mask that alone reaches it"
    assert semantics.ranges(record, "a")[0].keys() == {"implementation", "first", "last"}
    assert semantics.ranges({"versions": record["versions"][3:4]}, "c") == []
