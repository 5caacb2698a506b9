from posenc.api.calibration import closed_form as closed_form
from posenc.api.calibration import first_order as first_order
from posenc.api.loading import load as load
from posenc.api.masks import ClosedForm as ClosedForm
from posenc.api.masks import FirstOrder as FirstOrder
from posenc.api.model import Model as Model
from posenc.api.running import Run as Run
from posenc.api.running import run as run
from posenc.api.under import under as under
from posenc.capture.parts import ConditionError as ConditionError
from posenc.conditions.section import Condition as Condition
from posenc.models.files import ModelError as ModelError

__version__: str
