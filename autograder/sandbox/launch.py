"""Start the warm worker in a tier of isolation: choose its command, paths and environment. Trusted side.

The sandbox sees an allow-list: the system's libraries, the interpreter, its packages and the `autograder` package. A clone
keeps `course/` and `solutions/` next to `autograder/`, so the folder around the package is never on the list.
"""

import contextlib
import functools
import json
import os
import platform
import shutil
import socket
import stat
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

TIERS = ("bubblewrap", "landlock", "none")
USERS = 64
FIRST_USER = "60600"  # accounts never use 60578 to 61183: people and systemd-homed are below, systemd's dynamic users above
PACKAGE = Path(__file__).resolve().parent.parent
SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin")
ETC = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "fonts", "alternatives", "mime.types")


@dataclass(frozen=True)
class Plan:
    """How to start a worker: command, environment, writable folders, and the paths that it may and must not read."""

    argv: list[str]
    env: dict[str, str]
    scratch: list[str]
    readable: list[str]
    hidden: list[str]


class User:
    """The user that a root grader's worker steps down to.

    This is the first of `USERS` uids, from `ATTN_SANDBOX_UID` (60600) on, that no other worker on this machine holds, so
    each worker's processes are counted separately. `uid` is None if we are not root. A worker holds its uid by binding a
    named socket, which the kernel releases when this process ends for any reason.
    """

    def __init__(self) -> None:
        self._held: socket.socket | None = None
        self.uid: int | None = None
        if os.geteuid() != 0:
            return
        first = int(os.environ.get("ATTN_SANDBOX_UID", FIRST_USER))
        for uid in range(first, first + USERS):
            held = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            try:
                held.bind(f"\0attn-sandbox-user-{uid}")
            except OSError:
                held.close()
                continue
            self._held, self.uid = held, uid
            return
        self.uid = first  # shared with another worker, see `own`

    @property
    def own(self) -> bool:
        """Return whether no other worker uses this uid."""
        return self._held is not None

    def release(self) -> None:
        """Make the uid available to other workers."""
        if self._held is not None:
            self._held.close()


def make_plan(
    tier: str,
    private: Path,
    descriptor: int,
    limits: Mapping[str, int],
    info: int | None = None,
    given: Iterable[str] = (),
    uid: int | None = None,
) -> Plan:
    """Return the plan for `tier`. `private` is an otherwise unused folder outside the sandbox, `descriptor` the control socket.

    The `given` folders hold the packages that a course provides to its lessons, which is all of the course that the sandbox
    may read. `uid` is the user to step down to. Without bubblewrap, the worker gets its own disk at `private` if possible,
    of the size that `limits` states.

    Raises OSError with the reason if the tier is not available.
    """
    given = [os.path.realpath(folder) for folder in given if os.path.isdir(folder)]
    hidden = [part for path in _around(given) for part in _without(path, given)]
    readable = [*(part for path in readable_paths() for part in _without(path, hidden)), *given]
    scratch = ["/tmp", "/dev/shm"] if tier == "bubblewrap" else [str(private)]
    env = _environment(scratch[0])
    start = f"{_find_package(given)}; from autograder.sandbox.inside.worker import main; main({descriptor})"
    argv = [sys.executable, "-I", "-B", "-c", start]
    if tier == "bubblewrap":
        argv = _bubblewrap(readable, limits["scratch_bytes"], info) + argv
    if uid is not None and tier != "none":
        os.chown(private, uid, uid)
        own = {"path": str(private), "size": limits["scratch_bytes"], "files": limits["scratch_files"]}
        disk = own if tier == "landlock" else None
        step = json.dumps({"uid": uid, "paths": [*readable, str(private)], "disk": disk, "argv": argv, "env": env})
        stage = f"{_find_package()}; from autograder.sandbox.inside.drop_root import main; main(sys.argv[1])"
        argv = [sys.executable, "-I", "-B", "-c", stage, step]
    return Plan(argv, env, scratch, readable, hidden)


def _find_package(given: Iterable[str] = ()) -> str:
    """Return Python code that makes the worker import this copy of the package and not another installed version."""
    place = str(PACKAGE.parent)
    own = f"import sys; sys.path.{'append(' if PACKAGE.parent in _package_folders() else 'insert(0, '}{place!r})"
    return f"{own}; sys.path.extend({list(given)!r})"


def _around(given: Iterable[str]) -> list[str]:
    """Return `hidden_paths` and everything else that lies beside the `given` folders: the rest of their course."""
    beside = [str(path) for folder in given for path in Path(folder).parent.iterdir() if str(path) != folder]
    known = hidden_paths()
    return [*known, *(path for path in beside if not any(path == h or path.startswith(h + "/") for h in known))]


def unsupported(tier: str) -> str | None:
    """Return the reason why `tier` cannot even be tried on this machine, or None."""
    if tier not in TIERS:
        return f"expected one of {', '.join(TIERS)}, got {tier!r}"
    if not hasattr(os, "fork") or not hasattr(os, "setresuid"):
        return f"it needs Linux, this is {platform.system()}. Grade in WSL 2, a Linux virtual machine or a container"
    if tier == "none":
        return None
    if platform.machine() not in ("x86_64", "aarch64"):
        return f"it needs x86_64 or aarch64 (for its system call filter), this is {platform.machine()}"
    if tier == "bubblewrap" and shutil.which("bwrap") is None:
        return "`bwrap` is not installed. Install it: apt install bubblewrap (or dnf, pacman)"
    if tier == "landlock":
        from autograder.sandbox.inside.confine import MIN_LANDLOCK, landlock_abi

        if (abi := landlock_abi()) < MIN_LANDLOCK:
            return f"it needs Landlock ABI {MIN_LANDLOCK} (Linux 6.12), this kernel has {abi}"
    return None


def hidden_paths() -> list[str]:
    """Return what lies beside the package in a clone (`course`, `solutions`, …); nothing for an installed wheel."""
    root = PACKAGE.parent
    if root in _package_folders():
        return []
    keep = [PACKAGE, *(Path(path).resolve() for path in (sys.prefix, sys.base_prefix))]
    return [str(path) for path in sorted(root.iterdir()) if not any(k.is_relative_to(path) for k in keep)]


def _package_folders() -> set[Path]:
    return {Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib")}


def readable_paths() -> list[str]:
    """Return the paths of Python, packages and libraries, with links and resolved. Raises OSError if Python's prefix is /."""
    folders = [sys.base_prefix, sys.base_exec_prefix, sys.prefix, sys.exec_prefix, *map(str, _package_folders()), str(PACKAGE)]
    folders.append(str(Path(sys.executable).resolve().parent))
    for variable in ("ATTN_SANDBOX_READ", "LD_LIBRARY_PATH"):
        folders += [folder for folder in os.environ.get(variable, "").split(os.pathsep) if os.path.isabs(folder)]
    if any(folder.startswith("/nix/") for folder in folders):
        folders.append("/nix/store")
    named = [os.path.normpath(folder) for folder in folders] + [os.path.realpath(folder) for folder in folders]
    if "/" in named:
        raise OSError("expected Python in a folder of its own, but its prefix is /, which would let the sandbox read everything")
    paths = [path for path in dict.fromkeys([*SYSTEM, *(f"/etc/{name}" for name in ETC), *named]) if os.path.exists(path)]
    return [
        p
        for p in paths
        if os.path.islink(p) or not any(p != q and not os.path.islink(q) and p.startswith(q + "/") for q in paths)
    ]


def _without(path: str, hidden: Iterable[str]) -> list[str]:
    """Return `[path]`, or if it contains some of `hidden` (a clone in /usr/src), everything below it except those."""
    inside = [h for h in hidden if h == path or h.startswith(path + "/")]
    if not inside:
        return [path]
    if path in inside:
        return []
    return [part for child in sorted(os.listdir(path)) for part in _without(os.path.join(path, child), inside)]


def _environment(home: str) -> dict[str, str]:
    folders = [str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"]
    env = {"PATH": os.pathsep.join(folders), "LANG": "C.UTF-8"}
    env |= {"HOME": home, "TMPDIR": home, "USER": "learner", "LOGNAME": "learner"}
    env |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1")
    env |= {"ATTN_DEVICE": "cpu", "CUDA_VISIBLE_DEVICES": "", "MPLBACKEND": "module://matplotlib_inline.backend_inline"}
    env |= {"IPYTHONDIR": f"{home}/.ipython", "MPLCONFIGDIR": f"{home}/.matplotlib", "PYTHONDONTWRITEBYTECODE": "1"}
    return env | {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "TZ") if name in os.environ}


@functools.cache
def matplotlib_fonts() -> dict[str, str]:
    """Return Matplotlib's font list from this user's cache, if there is one, as file name -> text, without the system's fonts.

    Without the list, every worker would scan all fonts of the system, half of the time that importing Matplotlib takes.
    Leaving out the system's fonts keeps the list short.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "matplotlib"
    lists = {}
    for path in Path(os.environ.get("MPLCONFIGDIR") or cache).glob("fontlist-v*.json"):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            fonts = json.loads(path.read_text(encoding="utf-8"))
            for kind in ("afmlist", "ttflist"):
                fonts[kind] = [font for font in fonts[kind] if not os.path.isabs(font["fname"])]
            if fonts["ttflist"]:
                lists[path.name] = json.dumps(fonts)
    return lists


@functools.cache
def _flags(program: str) -> str:
    return subprocess.run([program, "--help"], capture_output=True, text=True, timeout=10, check=False).stdout


def _bubblewrap(readable: Iterable[str], scratch_bytes: int, info: int | None) -> list[str]:
    program = shutil.which("bwrap") or "/usr/bin/bwrap"
    known = _flags(program)
    size = ["--size", str(scratch_bytes)] if "--size" in known else []
    argv = [program, "--unshare-all", "--unshare-user", "--new-session", "--cap-drop", "ALL", "--as-pid-1"]
    if not os.stat(program).st_mode & stat.S_ISUID:  # for `inside.disk`, which gives them up at once
        argv += ["--cap-add", "CAP_SYS_ADMIN", "--cap-add", "CAP_SETPCAP"]
    argv += ["--disable-userns"] if "--disable-userns" in known else []  # older versions rely on the system call filter for this
    argv += ["--info-fd", str(info)] if info is not None else []
    argv += ["--proc", "/proc", "--remount-ro", "/proc"]
    argv += ["--dev", "/dev", *size, "--tmpfs", "/dev/shm", "--remount-ro", "/dev", *size, "--tmpfs", "/tmp"]
    for path in readable:
        if os.path.islink(path) and path in SYSTEM:
            argv += ["--symlink", os.readlink(path), path]
        else:
            argv += ["--ro-bind", os.path.realpath(path), path]
    return [*argv, "--remount-ro", "/", "--chdir", "/tmp", "--"]


def first_to_go(argv: list[str]) -> list[str]:
    """Return a command that becomes `argv` and marks it as the first to be killed when memory runs out.

    The kernel then ends the worker and what it starts instead of the grader. This happens before the sandbox closes: /proc
    is read-only inside, or a submission could make its neighbours the first to go.
    """
    return ["/bin/sh", "-c", 'echo 1000 2>/dev/null >/proc/self/oom_score_adj; exec "$@"', "sh", *argv]


def task_count(uid: int) -> int:
    """Return how many threads the user `uid` runs now. If processes are counted per user, limits have to add this number."""
    count = 0
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if process.name.isdigit() and process.stat().st_uid == uid:
                count += len(os.listdir(process / "task"))
    return count


def start(argv: list[str], env: dict[str, str], *, keep: Iterable[int], stderr: int) -> subprocess.Popen[bytes]:
    """Start the worker (bubblewrap, in that tier) in a new session that inherits the descriptors in `keep`."""
    return subprocess.Popen(
        argv,
        env=env,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        pass_fds=tuple(keep),
        start_new_session=True,
    )
