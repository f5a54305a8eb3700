"""What a submission does costs that submission and nothing else, in every tier that works here."""

import base64
import contextlib
import json
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import autograder.sandbox as box
from autograder.authoring.course import course_root
from autograder.judging.observation import Failure, Observation, Probe
from autograder.judging.script import Call, Script, script_to_data
from autograder.judging.values import Code, encode
from autograder.sandbox import codec, launch, process, refusals, untrusted
from autograder.sandbox.client import Sandbox
from autograder.sandbox.inside import confine
from autograder.sandbox.inside.worker import Worker
from autograder.sandbox.isolation_tiers import Tier, available_tiers, choose_tier
from autograder.sandbox.process import SandboxUnavailable
from autograder.sandbox.run_submission import Cell
from autograder.sandbox.submission_limits import Limits

ROOT = Path(launch.PACKAGE).parent
LIMITS = Limits(wall_s=8.0, cell_s=1.0, memory_bytes=3 << 30)
ISOLATING = ("bubblewrap", "landlock")
ADD = Probe(encode({"x": np.arange(3.0)}))


@pytest.fixture(scope="module", params=launch.TIERS)
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """One warm sandbox in each tier."""
    found = next(tier for tier in available_tiers() if tier.name == request.param)
    if not found.available:
        pytest.skip(found.reason)
    with Sandbox(request.param, LIMITS) as made:
        yield made


@pytest.fixture
def isolated(sandbox: Sandbox) -> Sandbox:
    """The sandbox, in the tiers that isolate."""
    if sandbox.tier not in ISOLATING:
        pytest.skip("the tier `none` does not isolate: it is for explicit --unsafe only")
    return sandbox


def cells(*sources: str) -> list[Cell]:
    return [Cell(f"c{index}", source) for index, source in enumerate(sources)]


def said(sandbox: Sandbox, *sources: str) -> str:
    """What the cells print and raise."""
    with sandbox.submission(cells(*sources)) as submission:
        outputs = [output for cell in submission.outputs for output in cell.outputs]
        return "".join(o.get("text") or f"{o['ename']}: {o['evalue']}\n" for o in outputs)


def still_works(sandbox: Sandbox) -> None:
    """The next submission gets a clean, working process."""
    with sandbox.submission(cells("def f(x): return x + 1")) as submission:
        (seen,) = submission.observe("f", [ADD], 10)
    assert seen.value is not None, seen.failure
    np.testing.assert_array_equal(seen.value.arrays[0], np.arange(3.0) + 1)


def kinds(seen: list[Observation]) -> list[str]:
    return [one.failure.kind if one.failure else "value" for one in seen]


@pytest.mark.parametrize("tier", launch.TIERS)
def test_of_a_course_the_sandbox_sees_the_given_packages_only(tier: str, tmp_path: Path) -> None:
    """Lessons import what they are given from a folder that lies beside answers, exercises and hidden seeds."""
    found = next(one for one in available_tiers() if one.name == tier)
    if not found.available:
        pytest.skip(found.reason)
    course = tmp_path / "course"
    (course / "given" / "helpers").mkdir(parents=True)
    (course / "given" / "helpers" / "__init__.py").write_text("def nine(): return 9\n")
    (course / ".secret").write_text("hush\n")
    for folder in (course, *course.parents):
        if folder.is_relative_to("/tmp/pytest-of-root"):
            folder.chmod(0o755)
    source = f"""
import helpers, os
print(helpers.nine())
for path in ({str(course)!r} + "/.secret", {str(Path(box.__file__).parents[2])!r} + "/solutions/masking.py"):
    try:
        print(len(open(path).read()) > 0)
    except OSError as error:
        print(type(error).__name__)
"""
    with Sandbox(tier, LIMITS, ("helpers",), (str(course / "given"),)) as made:
        assert made._worker().ready["missing"] == []
        lines = said(made, source).split()
    assert lines[0] == "9"
    if tier != "none":
        assert lines[1] in ("FileNotFoundError", "PermissionError")
        assert lines[2] in ("FileNotFoundError", "PermissionError")


# ---------------------------------------------------------------------------------------------- honest work


def test_numpy_torch_gradients_and_modules_come_back_as_arrays(sandbox: Sandbox) -> None:
    source = """
import numpy as np, torch
from autograder import check
def double(x): return 2 * x
def square(x): return x @ x
class Scale(torch.nn.Module):
    def __init__(self, d):
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(d))
    def forward(self, x): return self.w * x
warm = torch.ones(3, 3, requires_grad=True)
(warm @ warm).sum().backward()
choice = "b"
"""
    with sandbox.submission(cells(source)) as submission:
        assert submission.outputs[0].status == "ok", submission.outputs[0]
        (doubled,) = submission.observe("double", [ADD], 10)
        tensor = torch.arange(9.0).reshape(3, 3)
        (squared,) = submission.observe("square", [Probe(encode({"x": tensor}), ("x",), encode(torch.ones(3, 3)))], 10)
        script = Script({"d": 3}, {"w": torch.full((3,), 4.0)}, (Call(arguments={"x": torch.ones(2, 3)}),))
        (scaled,) = submission.observe("Scale", [Probe(encode(script_to_data(script)))], 10)
        (called,) = submission.observe("double", [Probe(encode({"x": Code("lambda y: y")}))], 10)
        assert submission.texts(["choice", "double"]) == {"choice": "b", "double": None}
        assert kinds(submission.observe("absent", [ADD, ADD], 10)) == ["missing", "missing"]
    assert doubled.value is not None
    np.testing.assert_array_equal(doubled.value.arrays[0], [0, 2, 4])
    assert squared.value is not None
    wanted = torch.ones(3, 3) @ tensor.T + tensor.T @ torch.ones(3, 3)
    np.testing.assert_allclose(squared.grads["x"], wanted.numpy())
    assert scaled.value is not None, scaled.failure
    np.testing.assert_array_equal(scaled.value.arrays[0], np.full((2, 3), 4.0))
    assert called.failure == Failure("raised", "TypeError", "", (3, "def double(x): return 2 * x"))


def test_the_warm_worker_has_one_thread_so_that_forks_are_safe(sandbox: Sandbox) -> None:
    assert sandbox._host is not None
    assert sandbox._host.ready["threads"] == 1
    assert sandbox._worker().ready["missing"] == []


def test_outputs_are_kept_cell_by_cell_after_an_error_too(sandbox: Sandbox) -> None:
    patient = Sandbox(sandbox.tier, Limits(cell_s=20.0), preload=("numpy",))  # the first cell imports matplotlib
    sources = cells(
        "%matplotlib inline\n1 / 0", "def f(:", "print('\\x1b[31mred\\x07')\n7", "import sys; print('e', file=sys.stderr)"
    )
    with patient, patient.submission(sources) as submission:
        done = submission.outputs
    assert [cell.status for cell in done] == ["error", "error", "ok", "ok"]
    assert [cell.id for cell in done] == ["c0", "c1", "c2", "c3"]
    assert done[0].outputs[0]["ename"] == "ZeroDivisionError"
    assert done[2].outputs == [
        {"output_type": "stream", "name": "stdout", "text": "red\n"},
        {"output_type": "display_data", "data": {"text/plain": "7"}, "metadata": {}},
    ]
    assert done[3].outputs == [{"output_type": "stream", "name": "stderr", "text": "e\n"}]


def test_figures_become_png(isolated: Sandbox) -> None:
    pytest.importorskip("matplotlib")
    slow = Sandbox(isolated.tier, Limits(cell_s=20.0), preload=("numpy",))
    with slow, slow.submission(cells("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()")) as submission:
        (cell,) = submission.outputs
    assert "image/png" in cell.outputs[-1]["data"], cell


PLOTS = """
import numpy as np
def f(x):
    {early}from matplotlib.backends.backend_agg import FigureCanvasAgg
    {early}drawn = []
    {early}FigureCanvasAgg.draw = lambda self: drawn.append(self)
    {early}import matplotlib.pyplot as plt
    {early}from matplotlib.pyplot import show
    drawn.clear()
    plt.imshow(np.ones((3, 3)))
    plt.show()
    figure, axes = plt.subplots()
    axes.plot([1, 2])
    show()
    plt.figure().show()
    return np.array([len(drawn), len(plt.get_fignums())]) + 0 * x.sum()
"""


@pytest.mark.parametrize("early", [False, True], ids=["imported in the function", "imported in a cell before"])
def test_an_answer_that_shows_figures_draws_none_and_leaves_none_open(isolated: Sandbox, *, early: bool) -> None:
    sources = [PLOTS.format(early="")]
    if early:
        lines = PLOTS.split("\n")
        first = [line.replace("    {early}", "") for line in lines if "{early}" in line]
        sources = [
            "\n".join(first),
            "%matplotlib inline\nplt.figure()",
            "\n".join(line for line in lines if "{early}" not in line),
        ]
    preload = ("matplotlib.pyplot",) if early else ()
    with Sandbox(isolated.tier, Limits(), preload) as sandbox, sandbox.submission(cells(*sources)) as submission:
        seen = submission.observe("f", [ADD, ADD], 60)
    assert kinds(seen) == ["value", "value"], seen
    for one in seen:
        assert one.value is not None
        assert one.value.arrays[0].ravel()[:2].tolist() == [0, 0]
        assert one.notes == ()


def test_a_worker_is_told_matplotlibs_fonts_and_does_not_look_through_the_systems(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from matplotlib import font_manager

    own = {"fname": "fonts/ttf/DejaVuSans.ttf", "name": "DejaVu Sans", "style": "normal", "variant": "normal", "weight": 400}
    own |= {"stretch": "normal", "size": "scalable", "index": 0, "__class__": "FontEntry"}
    fonts = {
        "ttflist": [own, own | {"fname": "/usr/share/x.ttf"}],
        "afmlist": [],
        "default_size": None,
        "__class__": "FontManager",
    }
    fonts |= {"_version": font_manager.FontManager.__version__, "_FontManager__default_weight": "normal", "defaultFamily": {}}
    (tmp_path / f"fontlist-v{fonts['_version']}.json").write_text(json.dumps(fonts))
    (tmp_path / "fontlist-v1.json").write_text("{broken")
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path))
    launch.matplotlib_fonts.cache_clear()
    try:
        with Sandbox(choose_tier(unsafe=True), LIMITS, ("matplotlib.font_manager",)) as sandbox:
            ask = "from matplotlib.font_manager import fontManager\nprint([font.name for font in fontManager.ttflist])"
            assert said(sandbox, ask).strip() == "['DejaVu Sans']"
    finally:
        launch.matplotlib_fonts.cache_clear()


def test_files_are_there_before_the_first_cell(sandbox: Sandbox) -> None:
    with sandbox.submission(
        cells("import helper\nprint(open('data/x.txt').read())"), {"data/x.txt": b"here", "helper.py": b""}
    ) as submission:
        assert submission.outputs[0].outputs[0]["text"] == "here\n"


@pytest.mark.parametrize("name", ["/etc/x", "../x", "a/../../x", ""])
def test_files_outside_the_working_folder_are_refused(sandbox: Sandbox, name: str) -> None:
    with pytest.raises(ValueError, match="relative path"), sandbox.submission([], {name: b""}):
        pass


def test_one_submission_at_a_time(sandbox: Sandbox) -> None:
    with sandbox.submission([]), pytest.raises(ValueError, match="one submission at a time"), sandbox.submission([]):
        pass


# ---------------------------------------------------------------------------------------------- costs only itself


def test_an_endless_cell_costs_that_cell(sandbox: Sandbox) -> None:
    sources = cells("def f(x): return x", "while True: pass", "def g(x): return x")
    with sandbox.submission(sources) as submission:
        assert [cell.status for cell in submission.outputs] == ["ok", "timeout", "ok"]
        assert kinds(submission.observe("f", [ADD], 5) + submission.observe("g", [ADD], 5)) == ["value", "value"]


def test_a_cell_that_cannot_be_interrupted_is_stopped_from_outside(isolated: Sandbox) -> None:
    stubborn = "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 64))\nwhile True: pass"
    with isolated.submission(cells("def f(x): return x", stubborn, "def g(x): return x")) as submission:
        assert [cell.status for cell in submission.outputs] == ["ok", "timeout", "ok"]
        assert kinds(submission.observe("f", [ADD], 5) + submission.observe("g", [ADD], 5)) == ["value", "value"]


def test_a_cell_that_ends_the_process_costs_that_cell(sandbox: Sandbox) -> None:
    with sandbox.submission(cells("def f(x): return x", "import os; os._exit(0)", "def g(x): return x")) as submission:
        assert [cell.status for cell in submission.outputs] == ["ok", "crashed", "ok"]
        assert kinds(submission.observe("f", [ADD], 5) + submission.observe("g", [ADD], 5)) == ["value", "value"]


def test_cells_that_all_end_the_process_end_the_run(sandbox: Sandbox) -> None:
    with sandbox.submission(cells(*["import os; os._exit(0)"] * 6)) as submission:
        assert {cell.status for cell in submission.outputs} == {"crashed", "not run"}
        assert kinds(submission.observe("f", [ADD, ADD], 5)) == ["crashed", "crashed"]
        assert submission.texts(["f"]) == {"f": None}


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("while True: pass", "timeout"),
        ("time.sleep(100)", "timeout"),
        ("os._exit(0)", "crashed"),
        ("os.kill(os.getpid(), 9)", "crashed"),
        ("ctypes.string_at(0)", "crashed"),
        ("sys.exit()", "raised"),
        ("raise KeyboardInterrupt", "raised"),
        ("return np.ones((4000, 4000))", "raised"),
        ("return np.ones(10**12)", "raised"),
        ("return f(x)", "raised"),
    ],
)
def test_a_function_that_fails_costs_its_exercise(sandbox: Sandbox, body: str, kind: str) -> None:
    source = f"import os, sys, time, ctypes, numpy as np\ndef f(x):\n    {body}\ndef g(x): return x"
    with sandbox.submission(cells(source)) as submission:
        assert set(kinds(submission.observe("f", [ADD, ADD], 0.5 if kind == "timeout" else 10))) == {kind}
        assert kinds(submission.observe("g", [ADD], 5)) == ["value"]


def test_a_function_that_kills_its_parent_costs_its_exercise(isolated: Sandbox) -> None:
    source = "import os\ndef f(x):\n    os.kill(os.getppid(), 9)\ndef g(x): return x"
    with isolated.submission(cells(source)) as submission:
        submission.observe("f", [ADD], 5)
        assert kinds(submission.observe("g", [ADD], 5)) == ["value"]


def test_a_memory_bomb_is_an_exception(sandbox: Sandbox) -> None:
    text = said(sandbox, "import numpy as np\nx = np.ones(10**10)", "x = []\nwhile True: x.append(np.empty(1 << 25))")
    assert text.count("MemoryError") == 2
    still_works(sandbox)


def test_the_memory_of_a_submission_is_counted_beside_what_imports_map() -> None:
    # PyTorch alone maps more than this limit, its build for CUDA twice as much as the one for a CPU
    source = "import numpy as np\nprint(np.ones(90_000_000).sum())\nprint(np.ones(140_000_000).sum())"
    with Sandbox(choose_tier(unsafe=True), Limits(memory_bytes=1 << 30, cell_s=10)) as sandbox:
        text = said(sandbox, source)
    assert "90000000.0" in text
    assert "140000000.0" not in text
    assert "MemoryError" in text


def test_many_processes_together_are_capped_where_a_control_group_can_be_made() -> None:
    source = """
import os
for _ in range(4):
    if os.fork() == 0:
        block = bytearray(400 << 20)
        block[::4096] = bytes(len(block[::4096]))
        import time
        time.sleep(20)
        os._exit(0)
print([os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(2)])
"""
    with Sandbox(choose_tier(unsafe=True), Limits(tree_bytes=1 << 30, cell_s=10), preload=()) as sandbox:
        assert sandbox._host is not None
        if not sandbox._host.capped:
            pytest.skip("no control group can be made here")
        with sandbox.submission(cells(source)) as submission:
            (done,) = submission.outputs
        assert done.status == "crashed" or "-9" in str(done.outputs), done  # two of four did not fit
        still_works(sandbox)


def test_a_fork_bomb_is_bounded_and_swept(isolated: Sandbox) -> None:
    # it would sleep for longer than a test may take
    bomb = "import os, time\nfor _ in range(400):\n    try: os.fork()\n    except OSError: break\ntime.sleep(900)"
    with isolated.submission(cells(bomb)) as submission:
        assert submission.outputs[0].status != "ok"
    still_works(isolated)


def test_large_files_are_refused(isolated: Sandbox) -> None:
    assert "File too large" in said(isolated, "open('x', 'wb').write(b'0' * (9 << 20))")


def test_output_is_capped(sandbox: Sandbox) -> None:
    sources = cells("print('x' * 10_000_000)", "for i in range(100_000): display(i)", "raise ValueError('y' * 10_000_000)")
    with sandbox.submission(sources) as submission:
        size = sum(len(str(cell.outputs)) for cell in submission.outputs)
    assert size < 4 * LIMITS.output_bytes
    still_works(sandbox)


FORGER = """
import os, struct, json
head = json.dumps({"m": {"op": "ran", "id": "0"}, "a": []}).encode()
noise = [b"ATW1" + struct.pack("<I", len(head)) + head, b"ATW1\\xff\\xff\\xff\\xff", b"garbage" * 1000, b"ATW1\\0\\0\\0\\0"]
def forge():
    for fd in range(3, 200):
        for data in noise:
            try: os.write(fd, data)
            except OSError: pass
"""


def test_forged_frames_cost_their_submission_only(sandbox: Sandbox) -> None:
    with sandbox.submission(cells(FORGER + "forge()", "x = 1")) as submission:
        assert submission.outputs[0].status in ("crashed", "timeout")
    with sandbox.submission(cells(FORGER + "def f(x): forge(); return x\ndef g(x): return x")) as submission:
        assert kinds(submission.observe("f", [ADD], 2)) == ["crashed"]
        assert kinds(submission.observe("g", [ADD], 2)) == ["value"]
    still_works(sandbox)


# ---------------------------------------------------------------------------------------------- reaches nothing


def test_a_hidden_input_cannot_leave_in_a_failure(sandbox: Sandbox) -> None:
    source = """
class Odd(Exception): pass
def f(x): raise Odd(f"secret {x}")
def g(x): raise type(f"secret{int(x[2])}", (Exception,), {})
def h(x): return type(f"secret{int(x[2])}", (), {})()
def w(x):
    import warnings
    warnings.warn(f"secret {x}")
    return x
"""
    with sandbox.submission(cells(source)) as submission:
        seen = [submission.observe(name, [ADD], 5)[0] for name in "fghw"]
    assert seen[0].failure == Failure("raised", "Odd", "", (2, 'def f(x): raise Odd(f"secret {x}")'))
    assert seen[1].failure is not None
    assert seen[1].failure.type == "Exception"
    assert seen[2].value is not None
    assert seen[2].value.strange == "object"
    assert seen[3].notes == ()


def test_the_course_and_its_solutions_are_out_of_reach(isolated: Sandbox) -> None:
    paths = [str(ROOT / name) for name in ("solutions", "course", "tests", ".git", "README.md")] + ["/root", str(course_root())]
    text = said(
        isolated,
        f"import os\nfor path in {paths!r}:\n    try: print('READ', path, os.listdir(path) or open(path).read())\n"
        "    except OSError: print('REFUSED')",
        "import solutions",
        "import course",
    )
    seen = [line for line in text.splitlines() if line.startswith("READ") and "[]" not in line and ".pyenv" not in line]
    assert seen == []
    assert text.count("READ") + text.count("REFUSED") == len(paths)
    assert text.count("ModuleNotFoundError") + text.count("PermissionError") == 2


def test_neither_passwords_nor_logs_nor_other_homes_can_be_read(isolated: Sandbox) -> None:
    paths = [
        "/etc/passwd",
        "/etc/shadow",
        "/var/log",
        "/home",
        "/proc/1/environ",
        "/proc/1/mem",
        "/run",
        "/sys",
        "/var/run/docker.sock",
    ]
    text = said(
        isolated,
        f"import os\nfor path in {paths!r}:\n"
        "    try: print(path, os.listdir(path) if os.path.isdir(path) else open(path, 'rb').read(9))\n"
        "    except OSError: print('refused')",
    )
    assert text == "refused\n" * len(paths)


def test_nothing_outside_the_scratch_folder_can_be_written(isolated: Sandbox) -> None:
    targets = ["/x", "/usr/x", "/etc/x", "/root/x", "/var/tmp/x", "/dev/x", str(launch.PACKAGE / "x"), f"{sys.prefix}/x"]
    text = said(
        isolated,
        f"for path in {targets!r}:\n    try: open(path, 'w').write('x'); print('WROTE', path)\n    except OSError: pass\n"
        "open('here', 'w').write('x')\nprint('end')",
    )
    assert text == "end\n"


def test_there_is_no_network(isolated: Sandbox) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        text = said(
            isolated,
            f"import socket\nsocket.create_connection(('127.0.0.1', {port}), 1)",
            "socket.socket(socket.AF_INET6)",
            "socket.socket(socket.AF_VSOCK)",
            "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
            "socket.socket(socket.AF_UNIX)",
            "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)",
            "import asyncio\nawait asyncio.sleep(0)\nprint('asyncio works')",
        )
    assert text.count("PermissionError") == 6
    assert "asyncio works" in text


# other processes, ways around the filter, messages to other workers, the network, what outlives a submission, the machine
DANGEROUS = {
    "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "kcmp", "pidfd_getfd", "move_pages",
    "migrate_pages", "io_uring_setup", "io_uring_enter", "io_uring_register", "open_by_handle_at", "name_to_handle_at",
    "userfaultfd", "bpf", "perf_event_open", "personality", "memfd_secret", "seccomp", "inotify_init", "inotify_init1",
    "inotify_add_watch", "fanotify_init", "fanotify_mark", "flock", "socket", "connect", "bind", "listen", "accept",
    "accept4", "keyctl", "add_key", "request_key", "shmget", "shmat", "semget", "msgget", "mq_open", "setpriority",
    "ioprio_set", "sched_setscheduler", "sched_setparam", "sched_setattr", "unshare", "setns", "chroot", "mount", "umount2",
    "pivot_root", "open_tree", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr", "kexec_load",
    "kexec_file_load", "init_module", "finit_module", "delete_module", "reboot", "swapon", "swapoff", "acct", "syslog",
    "quotactl", "quotactl_fd", "settimeofday", "clock_settime", "adjtimex", "clock_adjtime", "iopl", "ioperm", "modify_ldt",
    "uselib", "mknod", "mknodat", "sync", "syncfs", "setuid", "setgid", "setgroups", "setresuid", "setresgid", "capset",
    "vhangup", "lookup_dcookie", "mlock", "mlockall", "io_setup", "sethostname", "setdomainname",
}  # fmt: skip


def test_no_dangerous_system_call_is_allowed() -> None:
    assert not {*confine.ALLOWED, *confine.METADATA} & DANGEROUS


def test_every_system_call_that_is_not_allowed_is_refused(isolated: Sandbox) -> None:
    text = said(
        isolated,
        """
import ctypes, os, resource
from autograder.sandbox.inside.confine import ALLOWED, METADATA, NEWER
libc = ctypes.CDLL(None, use_errno=True)
column = 0 if os.uname().machine == "x86_64" else 1
kept = {numbers[column] for numbers in (ALLOWED | METADATA).values()}
kept |= {335, 336} if column == 0 else set()  # uretprobe and uprobe end whoever calls them, whatever a filter says
allowed = []
for number in range(NEWER + 5):
    if number not in kept:
        ctypes.set_errno(0)
        wanted = 38 if number == 435 or number >= NEWER else 1  # clone3, and what is younger than the list: no such call
        if libc.syscall(number, -1, 0, 0, 0, 0, 0) != -1 or ctypes.get_errno() != wanted:
            allowed.append(number)
for name, call in {
    "prlimit": lambda: resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (1, 1)),
    "affinity": lambda: os.sched_setaffinity(os.getppid(), {0}),
    "root": lambda: os.setuid(0),
}.items():
    try: call(); allowed.append(name)
    except OSError: pass
for flag in (0x10000000, 0x20000, 0x40000000):
    if libc.syscall((56, 220)[column], flag | 17, 0, 0, 0, 0) != -1: allowed.append(hex(flag))
print(allowed)
""",
    )
    assert text == "[]\n"


def test_what_was_refused_is_counted_whatever_the_submission_says(isolated: Sandbox) -> None:
    source = """
import os, socket
for _ in range(3):
    try: socket.socket()
    except PermissionError: pass
try: os.mknod("device")
except PermissionError: pass
"""
    with isolated.submission(cells(source)) as first:
        assert [done.status for done in first.outputs] == ["ok"], first.outputs
    with isolated.submission(cells("x = 1")) as second:
        pass
    assert first.refused == {"socket": 3, "mknodat": 1}
    assert second.refused == {}


def test_a_syntax_error_is_in_your_cell_and_not_in_a_file_of_ipythons(sandbox: Sandbox) -> None:
    with sandbox.submission(cells("x = (1 +\n", "compile('x = (', '<ipython-input-7-0a1b2c>', 'exec')")) as submission:
        errors = [output for done in submission.outputs for output in done.outputs if output["output_type"] == "error"]
    assert [error["evalue"].endswith("(your cell, line 1)") for error in errors] == [True, True], errors
    assert "ipython-input" not in json.dumps(errors)


def test_what_a_worker_was_refused_at_its_start_is_no_submissions(isolated: Sandbox) -> None:
    with Sandbox(isolated.tier, preload=()) as fresh:
        with fresh.submission(cells("x = 1")) as first:
            assert [done.status for done in first.outputs] == ["ok"], first.outputs
        with fresh.submission(cells("import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\nos._exit(1)", "x = 1")) as second:
            pass
        fresh.close()  # the next submission starts another worker
        with fresh.submission(cells("x = 1")) as third:
            pass
    assert [first.refused, second.refused, third.refused] == [{}, {}, {}]


def test_a_flood_of_refused_calls_is_slowed_down_and_harms_nobody(isolated: Sandbox) -> None:
    source = """
import ctypes, os, threading
libc = ctypes.CDLL(None)
CALL = 101 if os.uname().machine == "x86_64" else 117
def flood():
    while True: libc.syscall(CALL, 0, 0, 0, 0)
for _ in range(4): threading.Thread(target=flood, daemon=True).start()
flood()
"""
    with isolated.submission(cells(source, "y = 2")) as submission:
        states = [done.status for done in submission.outputs]
    assert states[0] == "timeout"
    assert 0 < submission.refused["ptrace"] < 5000  # a hundred a second, whoever asks
    still_works(isolated)


def test_without_a_listener_the_kernel_refuses_by_itself() -> None:
    """As where texts are read, and under a kernel, or another supervisor, that lets nobody listen."""
    program = """
import os, socket, sys
from autograder.sandbox.inside import confine
print(confine.seccomp(metadata=True, listen=False))
try: socket.socket()
except PermissionError: print("refused")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.stdout == "None\nrefused\n", done.stderr


def _numbers(header: Path) -> dict[str, int]:
    """The system calls that a header of the kernel numbers; `#define __NR_ptrace 101`, or `__NR3264_…` where widths differ."""
    found = re.findall(r"^#define __NR(?:3264)?_(\w+) +(\d+)$", header.read_text(encoding="ascii"), re.MULTILINE)
    return {name: int(number) for name, number in found}


@pytest.mark.parametrize(
    ("column", "headers"),
    [(0, "/usr/include/*/asm/unistd_64.h"), (1, "/usr/include/asm-generic/unistd.h")],
    ids=["x86_64", "aarch64"],
)
def test_the_allowed_system_calls_have_the_numbers_of_the_kernels_headers(column: int, headers: str) -> None:
    found = sorted(Path("/").glob(headers.lstrip("/")))
    if not found:
        pytest.skip(f"no kernel headers at {headers}: apt install linux-libc-dev")
    known = _numbers(found[0])
    ours = {name: pair[column] for name, pair in {**confine.ALLOWED, **confine.METADATA}.items()}
    named = {name: number for name, number in ours.items() if name in known}
    assert {name: known[name] for name in named} == {name: number for name, number in named.items() if number is not None}
    newer = {"fchmodat2", "setxattrat", "removexattrat", "mseal", "futex_wake", "futex_wait", "futex_requeue"}
    older = {"newfstatat"}  # under which the kernel's general table has it by another name
    # headers may be older than the kernels that have the newer ones
    assert {name for name, number in ours.items() if number is not None} - set(known) <= newer | older
    names = {name: numbers[column] for name, numbers in refusals.NAMES.items() if numbers[column] is not None}
    assert names == {name: known[name] for name in names}
    assert len(named) > 60


def test_killing_everything_in_reach_leaves_the_next_submission_alone(isolated: Sandbox) -> None:
    source = """
import os, signal
for pid in (os.getppid(), 1, -1, 0):
    for number in (2, 15, 19, 9):
        try: os.kill(pid, number) if (pid, number) != (0, 9) else None
        except (OSError, KeyboardInterrupt): pass
os.kill(os.getpid(), 9)
"""
    worker = isolated._host
    with isolated.submission(cells(source)) as submission:
        assert submission.outputs[0].status in ("crashed", "timeout")
    still_works(isolated)
    assert isolated._host is worker, "the warm worker had to be replaced"


def test_daemons_and_files_do_not_outlive_their_submission(isolated: Sandbox) -> None:
    marker = f"ATTN{os.getpid()}"
    source = f"""
import os, sys, time
for folder in ("/tmp", "/dev/shm", ".", os.path.expanduser("~"), os.environ["TMPDIR"]):
    for name in ("left", ".left"):
        try: open(f"{{folder}}/{{name}}", "w").write("x")
        except OSError: pass
try: os.mkdir("locked"); open("locked/x", "w").write("x"); os.chmod("locked", 0)
except OSError: pass
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        os.execv(sys.executable, [sys.executable, "-S", "-c", "import time; time.sleep(60)", "{marker}"])
    os._exit(0)
time.sleep(0.2)
print("started")
"""
    assert "started" in said(isolated, source)
    assert not running(marker)
    look = (
        "import os\nfor f in ('/tmp', '/dev/shm', '.', os.path.expanduser('~')):\n"
        "    try: print([n for n in os.listdir(f) if 'left' in n or n == 'locked'])\n    except OSError: print([])"
    )
    assert set(said(isolated, look).splitlines()) == {"[]"}


def test_folders_nested_without_end_are_removed_too(isolated: Sandbox) -> None:
    dig = "import os\nfor _ in range(3000):\n    os.mkdir('d')\n    os.chdir('d')\nprint('dug')"
    listing = "import os; print(os.listdir('.'), os.listdir(os.environ['TMPDIR']).count('d'))"
    with Sandbox(isolated.tier, Limits(cell_s=20.0), preload=("numpy",)) as patient:
        assert said(patient, dig) == "dug\n"
        assert said(patient, listing) == "[] 0\n"


FOLDERS = """
import errno, os
for top in (os.environ["TMPDIR"], "/dev/shm"):
    made = 0
    try:
        while made < 300_000:
            os.mkdir(f"{top}/d{made}")
            made += 1
    except OSError as error: print(top, made, errno.errorcode[error.errno])
"""


def test_of_many_folders_few_can_be_made_and_they_are_removed_quickly(isolated: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "SWEEP_S", 300.0)  # by the clock: what counts here are the processor seconds
    with Sandbox(isolated.tier, Limits(cell_s=20.0), preload=("numpy",)) as patient:
        host = patient._worker()
        if "disk" in host.shared or "files" in host.shared:
            pytest.skip("no disk of its own can be mounted here: `attn doctor` says so")
        with patient.submission(cells(FOLDERS)) as submission:
            text = submission.outputs[0].outputs[0]["text"]
            before = patient.cpu_s()
        lines = [line.split() for line in text.splitlines()]
        assert [line[2] for line in lines] == (["ENOSPC"] * 2 if isolated.tier == "bubblewrap" else ["ENOSPC", "EACCES"])
        assert all(int(line[1]) < patient.limits.scratch_files for line in lines)
        assert patient._host is host, "the worker was thrown away"
        assert patient.cpu_s() - before < 2
        still_works(patient)


def test_the_rights_to_mount_a_disk_are_given_up_before_a_submission_comes(isolated: Sandbox) -> None:
    source = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
head, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
print(libc.capget(head, sets), list(sets), [n for n in range(41) if libc.prctl(23, n) == 1 or libc.prctl(47, 1, n, 0, 0) == 1])
"""
    bounding = [] if isolated.tier == "bubblewrap" or os.geteuid() == 0 else list(range(41))
    assert said(isolated, source) == f"0 {[0] * 6} {bounding}\n"


def test_where_no_disk_can_be_mounted_the_sandbox_works_without_a_limit_on_files(monkeypatch: pytest.MonkeyPatch) -> None:
    if not any(tier.available for tier in available_tiers() if tier.name == "bubblewrap"):
        pytest.skip("bubblewrap does not work here")
    make = launch._bubblewrap

    def without(*args: Any) -> list[str]:
        return [part for part in make(*args) if part != "--cap-add" and not part.startswith("CAP_")]

    monkeypatch.setattr(launch, "_bubblewrap", without)
    with Sandbox("bubblewrap", LIMITS, preload=("numpy",)) as made:
        assert made._worker().shared == ("files",)
        still_works(made)


def test_what_is_readable_below_a_scratch_folder_is_there_and_read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    if not any(tier.available for tier in available_tiers() if tier.name == "bubblewrap"):
        pytest.skip("bubblewrap does not work here")
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        (Path(folder) / "library").write_text("here")
        monkeypatch.setenv("ATTN_SANDBOX_READ", folder)
        with Sandbox("bubblewrap", LIMITS, preload=("numpy",)) as made:
            path = f"{folder}/library"
            assert said(made, f"import os\nprint(open({path!r}).read(), os.statvfs('/tmp').f_files)") == "here 20000\n"
            assert "Read-only" in said(made, f"open({path!r}, 'w')")


def test_what_was_there_before_the_first_submission_stays(tmp_path: Path) -> None:
    (tmp_path / "mount").mkdir()
    worker = Worker(socket.socket(), {"tier": "none", "scratch": [str(tmp_path)]})
    (tmp_path / "mount" / "left").write_text("x")
    (tmp_path / "link").symlink_to("/usr")
    (tmp_path / "deep" / "er").mkdir(parents=True)
    worker._wipe()
    worker.control.close()
    assert list(tmp_path.rglob("*")) == [tmp_path / "mount"]


@pytest.mark.parametrize("tier", launch.TIERS)
def test_nothing_outlives_a_grader_that_is_killed(tier: str, tmp_path: Path) -> None:
    if not any(found.available for found in available_tiers() if found.name == tier):
        pytest.skip(f"{tier} does not work here")
    marker = f"ATTN-kill-{tier}-{os.getpid()}"
    source = f"""
import os, signal, sys
from autograder.sandbox.client import Sandbox
from autograder.sandbox.run_submission import Cell
command = "[sys.executable, '-S', '-c', 'import time; time.sleep(60)', '{marker}']"
loop = f"import subprocess, sys; subprocess.Popen({{command}}, start_new_session=True)"
with Sandbox("{tier}", preload=()) as sandbox, sandbox.submission([Cell("a", loop)]) as submission:
    print(submission.outputs[0].status, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", source], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.stdout == "ok\n", done.stderr
    until = time.monotonic() + 5
    while running(marker) and time.monotonic() < until:
        time.sleep(0.05)
    assert not running(marker)


def running(marker: str) -> bool:
    """Whether a process has `marker` in its command line."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if marker.encode() in path.read_bytes() and path.parent.name != str(os.getpid()):
                return True
    return False


def test_patches_do_not_reach_the_next_submission(sandbox: Sandbox) -> None:
    vandal = """
import numpy as np, torch, builtins, autograder.judging.call_answer, autograder.sandbox.wire, sys
np.exp = torch.softmax = autograder.judging.call_answer.observe = autograder.sandbox.wire.send = None
builtins.len = lambda x: 0
get_ipython().ast_transformers.append(None)
sys.modules["math"] = None
"""
    with sandbox.submission(cells(vandal)) as submission:
        submission.observe("f", [ADD], 1)
    assert said(sandbox, "import math, numpy as np\nprint(np.exp(0.0), math.pi > 3, len([1]))") == "1.0 True 1\n"
    still_works(sandbox)


def test_one_worker_serves_one_submission_after_another(sandbox: Sandbox) -> None:
    with Sandbox(sandbox.tier, LIMITS, preload=("numpy",)) as fresh:  # the first submission is followed by some tidying up
        for _ in range(3):
            still_works(fresh)
        assert fresh.lost == 0


def test_a_dead_worker_is_replaced() -> None:
    with Sandbox("none", preload=()) as sandbox:
        assert sandbox._host is not None
        sandbox._host._control.shutdown(socket.SHUT_RDWR)
        still_works(sandbox)


# ---------------------------------------------------------------------------------------------- tiers


def test_without_a_sandbox_grading_is_refused_unless_unsafe(monkeypatch: pytest.MonkeyPatch) -> None:
    reasons = {"bubblewrap": "no bwrap.", "landlock": "old kernel."}
    monkeypatch.setattr("autograder.sandbox.isolation_tiers.try_tier", lambda name: Tier(name, False, reasons[name]))
    with pytest.raises(SandboxUnavailable, match=r"no bwrap(.|\n)*old kernel(.|\n)*--unsafe"):
        choose_tier()
    assert choose_tier(unsafe=True) == "none"


def test_reasons_say_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _name: None)
    assert "apt install bubblewrap" in str(launch.unsupported("bubblewrap"))
    monkeypatch.setattr("autograder.sandbox.inside.confine.landlock_abi", lambda: 3)
    assert "Linux 6.12" in str(launch.unsupported("landlock"))
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    assert "riscv64" in str(launch.unsupported("landlock"))
    assert "expected one of" in str(launch.unsupported("docker"))


def test_a_worker_that_is_not_confined_refuses_to_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if not any(tier.available for tier in available_tiers() if tier.name == "bubblewrap"):
        pytest.skip("bubblewrap does not work here")
    monkeypatch.setattr(launch, "hidden_paths", list)
    make = launch.make_plan

    def exposed(*args: object, **kw: object) -> launch.Plan:
        plan = make(*args, **kw)
        return launch.Plan(plan.argv, plan.env, plan.scratch, plan.readable, ["/usr"])

    monkeypatch.setattr(launch, "make_plan", exposed)
    with pytest.raises(SandboxUnavailable, match="it can read /usr"):
        Sandbox("bubblewrap", preload=()).__enter__()


def test_a_clone_below_a_readable_folder_is_carved_out(tmp_path: Path) -> None:
    for name in ("lib", "src/clone/autograder", "src/clone/solutions"):
        (tmp_path / name).mkdir(parents=True)
    parts = launch._without(str(tmp_path), [str(tmp_path / "src/clone/solutions")])
    assert parts == [str(tmp_path / "lib"), str(tmp_path / "src/clone/autograder")]


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_fits_the_kernel_and_ends_by_refusing(machine: str) -> None:
    program = confine.seccomp_program(machine, metadata=True)
    assert len(program) % 8 == 0
    assert len(program) // 8 < 4096
    assert program[-8:] == b"\x06\0\0\0\x01\0\x05\0"  # return EPERM


def test_an_unknown_machine_has_no_filter() -> None:
    with pytest.raises(confine.ConfineError, match="riscv64"):
        confine.seccomp_program("riscv64", metadata=False)


def test_a_text_is_cleaned_of_everything_that_steers_a_terminal_or_reorders_it() -> None:
    assert untrusted.clean_text("a\x1b[2Jb\x1b]0;t\x07c\u202ed\r\ne\tf\x00\ud800") == "abcd\ne\tf"


def test_the_modules_import_where_there_is_no_linux() -> None:
    code = (
        "import sys; sys.modules.update(resource=None, fcntl=None)\n"
        "import autograder.sandbox, autograder.sandbox.launch\n"
        "import autograder.sandbox.inside.confine, autograder.sandbox.inside.drop_root"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_where_memory_runs_out_a_submission_goes_first_and_cannot_change_that(sandbox: Sandbox) -> None:
    assert sandbox._host is not None
    pid = sandbox._host._inner or sandbox._host._process.pid  # type: ignore[union-attr]  # it runs
    assert Path(f"/proc/{pid}/oom_score_adj").read_text().strip() == "1000"
    if sandbox.tier in ISOLATING:
        lower = "import ctypes\nctypes.CDLL(None).prctl(4, 1, 0, 0, 0)\nopen('/proc/self/oom_score_adj', 'w').write('0')"
        assert re.search("Read-only file system|Permission denied", said(sandbox, lower))


def test_nobody_waits_for_a_file_that_a_submission_holds(isolated: Sandbox) -> None:
    lease = (
        "import fcntl, os\nopen('mine', 'w').close()\nfcntl.fcntl(os.open('mine', os.O_RDONLY), fcntl.F_SETLEASE, fcntl.F_WRLCK)"
    )
    assert "Operation not permitted" in said(isolated, lease)


@pytest.mark.parametrize(("width", "height", "kept"), [(640, 480, True), (60_000, 60_000, False)])
def test_a_picture_that_would_fill_a_browsers_memory_is_left_out(width: int, height: int, kept: bool) -> None:
    data = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height)
    item = {"output_type": "display_data", "data": {"image/png": base64.b64encode(data).decode(), "text/plain": "figure"}}
    (output,), _ = untrusted.clean_outputs(*codec.outputs_to_wire([item]), untrusted.Room(10_000))
    assert ("image/png" in output["data"]) is kept


def test_pictures_that_would_fill_it_together_are_left_out_too() -> None:
    """A megabyte of output holds two hundred of them, which a browser unpacks into twenty-five gigabytes."""
    data = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 5000, 5000)
    item = {"output_type": "display_data", "data": {"image/png": base64.b64encode(data).decode(), "text/plain": "figure"}}
    first, room = untrusted.clean_outputs(*codec.outputs_to_wire([item] * 3), untrusted.Room(10_000))
    second, _ = untrusted.clean_outputs(*codec.outputs_to_wire([item] * 3), room)
    assert ["image/png" in output["data"] for output in [*first, *second]] == [True] * 4 + [False] * 2
