"""What Python code calls: models loaded by name, put under conditions, and run on texts."""

PLACES = {
    "ClosedForm": "posenc.api.masks",
    "Condition": "posenc.conditions.section",
    "ConditionError": "posenc.capture.parts",
    "FirstOrder": "posenc.api.masks",
    "Model": "posenc.api.model",
    "ModelError": "posenc.models.files",
    "Run": "posenc.api.running",
    "closed_form": "posenc.api.calibration",
    "first_order": "posenc.api.calibration",
    "load": "posenc.api.loading",
    "run": "posenc.api.running",
    "under": "posenc.api.under",
}
"""Where each name of ``posenc`` is; ``__init__.pyi`` has them for checkers of types. Here, not in
the package's own module, which is code of every step: one more name makes no result again."""
