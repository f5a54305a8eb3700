"""Run a learner's function or class on one case and record what happened, as data.

Only this module calls learners' code. It runs in the learner's own process for an instant check and in the sandbox for grading.
The `Observation` that it returns is plain data, so `judge` never needs the learner's object.
"""

import contextlib
import ctypes
import inspect
import io
import sys
import sysconfig
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from autograder.judging import call_limits, other_device
from autograder.judging.fact import fact
from autograder.judging.observation import RUNNING, Failure, Observation, Probe
from autograder.judging.script import PARTS, Call, Construct, Keeps, Read, script_from_data
from autograder.judging.thread_seconds import Stopwatch
from autograder.judging.values import Array, ArrayNode, Code, EncodedValue, ObjectNode, as_array, decode, encode

MAX_NOTES = 5
LONGEST_TIMES = 20  # the limit by the clock, as a multiple of the limit in a call's own seconds
NOTHING_RAISED = "nothing raised"  # stands for the name of an exception
_OWN = (__file__, other_device.__file__, call_limits.__file__)
_STDLIB = sysconfig.get_paths()["stdlib"]


class _TimeUp(BaseException):
    """Stops a call at its deadline. No `except Exception` of an answer catches it."""


def observe(answer: Any, probe: Probe, *, dtype: str | None = None) -> Observation:
    """Call `answer` on the probe's inputs and return what happened. Only a KeyboardInterrupt in the main thread is raised.

    `dtype` casts floating inputs: the reference makes its expected values with `"float64"`.
    """
    values = decode(probe.inputs, dtype=dtype)
    before = encode(decode(probe.inputs, dtype=dtype))
    observation = Observation()
    theirs: list[str] = []
    watch = Stopwatch()
    with _quietly(observation):
        try:
            if probe.grad:
                _with_gradients(answer, values, probe, observation, dtype)
            elif probe.elsewhere:
                device = other_device.device()
                values = device.send(values)
                with device.there():
                    result = _run(answer, values)
                observation.value = encode(device.fetch(result))
            else:
                with call_limits.by_hand(probe.by_hand):
                    observation.value = encode(_run(answer, values) if not probe.room else _within(probe, answer, before, dtype))
            theirs = _renamed(answer, list(values)) if isinstance(values, dict) else []
        except _UnusableError as problem:
            observation.failure = problem.failure
        except BaseException as error:  # SystemExit is a failure too
            if _is_ctrl_c(error):
                raise
            observation.failure = _describe(error, answer)
    observation.seconds = watch.seconds()
    if observation.failure is None and theirs:
        by_position = fact("note.by_position", theirs=", ".join(theirs)[:100], ours=", ".join(values))
        observation.notes = (by_position, *observation.notes)[:MAX_NOTES]
    if observation.failure is None:
        observation.mutated = _changed(before, encode(values), values)
    return observation


def bare(answer: Any, probe: Probe, *, dtype: str | None = None) -> Observation:
    """Observe one of the course's programs, without notes, timing or checks for changed inputs."""
    if probe.room or probe.by_hand or probe.elsewhere:
        return observe(answer, probe, dtype=dtype)
    values, observation = decode(probe.inputs, dtype=dtype), Observation()
    try:
        if probe.grad:
            _with_gradients(answer, values, probe, observation, dtype)
        else:
            observation.value = encode(_run(answer, values))
    except BaseException as error:
        if _is_ctrl_c(error):
            raise
        observation.failure = Failure("raised", type(error).__name__, str(error)[:600])
    return observation


def observe_within(
    seconds: float, answer: Any, probe: Probe, *, dtype: str | None = None, how: Callable[..., Observation] = observe
) -> Observation:
    """Call `observe` with a deadline, for the learner's own notebook: an endless loop becomes an observation.

    `seconds` are the call's own: time in which it waits for a processor that is busy with other programs doesn't count. The call
    runs in a thread, which an asynchronous exception asks to stop, so this needs no signals. A thread that doesn't stop is left
    behind. Grading does not rely on this, because there the sandbox is killed from outside. A browser has no threads, so there
    `observe_by_line` is used.
    """
    if sys.platform == "emscripten":
        return observe_by_line(seconds, answer, probe, dtype=dtype, how=how)
    result: list[Observation] = []
    thread = threading.Thread(target=lambda: result.append(how(answer, probe, dtype=dtype)), daemon=True)
    thread.start()
    watch, latest = Stopwatch(thread.native_id), time.monotonic() + LONGEST_TIMES * seconds
    while thread.is_alive() and (left := min(seconds - watch.seconds(), latest - time.monotonic())) > 0:
        thread.join(left)
    if thread.is_alive() and thread.ident is not None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(_TimeUp))
        thread.join(0.2)
        held = RUNNING if thread.is_alive() else ""  # a bare `except:` in the answer's loop caught the _TimeUp
        return Observation(failure=Failure("timeout", held, f"{seconds:g} s"), seconds=seconds)
    return result[0]


def observe_by_line(
    seconds: float, answer: Any, probe: Probe, *, dtype: str | None = None, how: Callable[..., Observation] = observe
) -> Observation:
    """Call `observe` with a deadline but without a thread: the clock is read before each line of the answer.

    This can interrupt neither a single call into a library nor a loop with a bare `except:`. The page in the browser
    therefore has its own deadline, after which it ends the whole interpreter.
    """
    deadline, late, before = time.perf_counter() + seconds, False, sys.gettrace()

    def watch(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal late
        if time.perf_counter() > deadline:
            late = True
            raise _TimeUp
        return None if _is_library(frame.f_code.co_filename) else watch

    sys.settrace(watch)
    try:
        observation = how(answer, probe, dtype=dtype)
    except _TimeUp:  # it was raised between two lines of the engine
        observation = Observation()
    finally:
        sys.settrace(before)
    return Observation(failure=Failure("timeout", "", f"{seconds:g} s"), seconds=seconds) if late else observation


def _is_ctrl_c(error: BaseException) -> bool:
    """Return whether someone may have pressed Ctrl-C, which Python raises in the main thread alone."""
    return isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()


def _is_library(path: str) -> bool:
    return path.startswith((*_OWN, _STDLIB, "<frozen")) or "site-packages" in path


def _within(probe: Probe, answer: Any, given: EncodedValue, dtype: str | None) -> Any:
    """Call `answer` within the case's memory limit. It warms up with other numbers, so it cannot have stored the result."""
    room = int(probe.room * sum(array.nbytes for array in given.arrays))
    copies = iter([decode(each, dtype=dtype) for each in (probe.inputs.map(_turned), probe.inputs)])
    tensors = any(leaf.kind == "tensor" for leaf in given.flat())
    return call_limits.within(room, lambda: _run(answer, next(copies)), tensors=tensors)


def _turned(leaf: EncodedValue) -> EncodedValue:
    """Return an array of other numbers with the same shape and dtype. Integers and booleans may be indices, so they stay."""
    if not isinstance(leaf, ArrayNode) or leaf.content.dtype.kind not in "fc":
        return leaf
    return ArrayNode(leaf.content.ravel()[::-1].reshape(leaf.content.shape), leaf.kind)


class _UnusableError(Exception):
    """The learner's class cannot be used, because the weights don't load. Carries the failure to report."""

    def __init__(self, failure: Failure):
        self.failure = failure


def _run(answer: Any, values: Any) -> Any:
    if not (isinstance(values, dict) and values.keys() == PARTS):
        return _called(answer, values)
    script = script_from_data(values)
    obj = answer(**script.init)
    if script.weights is not None:
        try:
            obj.load_state_dict(script.weights)
        except Exception as error:
            raise _UnusableError(Failure("weights", type(error).__name__, str(error)[:600])) from None
    results: list[Any] = []
    beside = []  # other objects of the class, kept alive because state that they share with `obj` might vanish with them
    for call in script.calls:
        match call:
            case Keeps():
                results.append(call_limits.kept(obj, script.init) <= call.numbers)
            case Construct():
                beside.append(type(obj)(**call.arguments))
                results.append(None)
            case Read():
                results.append(_frozen(getattr(obj, call.attribute)))
            case Call():
                results.append(_called_on(obj, call))
    return tuple(results)


def _called_on(obj: Any, call: Call) -> Any:
    member = obj if call.method == "__call__" else getattr(obj, call.method)
    return _frozen(member(**call.arguments)) if call.raises is None else _raised(member, call.arguments, call.raises)


def _called(answer: Any, values: dict[str, Any]) -> Any:
    """Call `answer` by keyword, or by position if its parameters have other names and the order is clear (see `_renamed`)."""
    try:
        return answer(**values)
    except TypeError as error:
        if error.__traceback__ is None or error.__traceback__.tb_next is not None or not _renamed(answer, list(values)):
            raise  # the answer itself raised it, or the order of the parameters is not clear
    return answer(*values.values())


def _renamed(answer: Any, asked: list[str]) -> list[str]:
    """Return the function's own names for the parameters `asked`; empty if they are the same or the order is not clear."""
    try:
        parameters = inspect.signature(answer).parameters
    except (TypeError, ValueError):
        return []
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    theirs = [name for name, parameter in parameters.items() if parameter.kind in positional]
    clear = len(theirs) == len(asked) == len(parameters) and theirs != asked
    return theirs if clear and all(own == name or own not in asked for own, name in zip(theirs, asked, strict=True)) else []


def _raised(member: Any, arguments: dict[str, Any], wanted: type[Exception]) -> str:
    """Return the name of the exception that a call raises, where `wanted` or one of its subclasses counts as `wanted`."""
    try:
        member(**arguments)
    except NotImplementedError:
        raise
    except wanted:
        return wanted.__name__
    except Exception as error:
        return type(error).__name__
    return NOTHING_RAISED


def _frozen(value: Any) -> Any:
    """Copy arrays that a later call on the same object might overwrite, for example the views that a cache returns."""
    if isinstance(value, tuple):
        return tuple(_frozen(item) for item in value)
    converted = as_array(value)
    return value if converted is None else (value.copy() if converted[1] == "array" else value.detach().clone())


def _with_gradients(answer: Any, values: dict[str, Any], probe: Probe, observation: Observation, dtype: str | None) -> None:
    import torch

    for name in probe.grad:
        values[name].requires_grad_()
    value = _run(answer, values)
    observation.value = encode(value)
    first = value[0] if isinstance(value, tuple | list) and value else value
    assert probe.cotangent is not None
    cotangent = decode(probe.cotangent, dtype=dtype)
    if not isinstance(first, torch.Tensor) or first.shape != cotangent.shape:
        return  # the shape check fails first and says why
    inputs = [values[name] for name in probe.grad]
    grads: tuple[torch.Tensor | None, ...] = (None,) * len(inputs)
    if first.requires_grad:
        grads = torch.autograd.grad(first, inputs, cotangent.to(first), allow_unused=True)
    for name, grad in zip(probe.grad, grads, strict=True):
        converted = as_array(grad)
        observation.grads[name] = None if converted is None else converted[0]


def _changed(before: EncodedValue, after: EncodedValue, values: Any) -> tuple[str, ...]:
    if not isinstance(values, dict):
        return ()
    now = after.items()
    return tuple(name for name, old in before.items().items() if name not in now or not same(old, now[name]))


def same(value: EncodedValue, other: EncodedValue) -> bool:
    """Return whether two values are equal bit for bit, where NaN equals NaN. Code leaves count as equal."""
    left, right = list(value.leaves()), list(other.leaves())
    if [path for path, _ in left] != [path for path, _ in right]:
        return False
    return all(_alike(a, b) for (_, a), (_, b) in zip(left, right, strict=True))


def _alike(a: EncodedValue, b: EncodedValue) -> bool:
    if isinstance(a, ArrayNode) and isinstance(b, ArrayNode):
        return _bits(a.content) == _bits(b.content)
    return isinstance(a, Code | ObjectNode) or a == b or repr(a) == repr(b)  # the repr makes NaN equal NaN


def _bits(array: Array) -> tuple[str, tuple[int, ...], bytes]:
    """Return dtype, shape and bytes by the array's own methods, because an answer can replace functions in NumPy's modules."""
    return array.dtype.str, array.shape, array.tobytes()


def _describe(error: BaseException, answer: Any) -> Failure:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.lineno is not None]
    theirs = [frame for frame in frames if not _is_library(frame.filename)]
    cell = _written_in(answer)
    own = [frame for frame in theirs if frame.filename == cell] or theirs  # prefer lines in the answer's own cell
    line = (own[-1].lineno or 0, (own[-1].line or "").strip()[:200]) if own else None
    if isinstance(error, NotImplementedError) and (not theirs or _is_stub(theirs[-1], answer, cell)):
        return Failure("blank", "NotImplementedError", str(error)[:300])
    return Failure("raised", type(error).__name__, str(error)[:600], line)


def _is_stub(frame: traceback.FrameSummary, answer: Any, cell: str | None) -> bool:
    """Return whether the frame that raised NotImplementedError is in the answer itself, and not in a function that it calls.

    PyTorch raises NotImplementedError too, if it has no version of an operation for a dtype.
    """
    if frame.line and "raise" not in frame.line:
        return False
    return cell is None or (frame.filename == cell and (isinstance(answer, type) or frame.name == answer.__name__))


def _written_in(answer: Any) -> str | None:
    """Return the file (in Jupyter, the cell) that contains the function, or the first method of the class."""
    members = vars(answer).values() if isinstance(answer, type) else (_undecorated(answer),)
    return next((member.__code__.co_filename for member in members if hasattr(member, "__code__")), None)


def _undecorated(answer: Any) -> Any:
    """Return the function inside its decorators, because a decorator that a lesson provides is in another file."""
    try:
        return inspect.unwrap(answer)
    except ValueError:  # the function wraps itself
        return answer


@contextlib.contextmanager
def _quietly(observation: Observation) -> Iterator[None]:
    """Note warnings and stderr in `observation` and keep them out of the notebook: nbgrader gives 0 for any output on stderr."""
    text = io.StringIO()
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stderr(text):
        warnings.simplefilter("always")
        yield
    notes = [f"{w.category.__name__}: {w.message}" for w in caught]
    notes += [line for line in text.getvalue().splitlines() if line.strip()]
    observation.notes = tuple(dict.fromkeys(note[:200] for note in notes))[:MAX_NOTES]
