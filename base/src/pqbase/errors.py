"""The root of every package's tree of errors: what happened, why, and the next command, told in one shape."""

from __future__ import annotations


class PqError(Exception):
    """Base of everything that is raised on purpose.

    what: what happened; why: the cause, where it is not part of that; code: a short stable word for programs;
    hint: the next command or edit. A subclass sets `code` and `hint` for all of its kind.
    """

    code = "error"
    hint = ""

    def __init__(self, what: str, hint: str | None = None, code: str | None = None, *, why: str = "") -> None:
        super().__init__(f"{what} ({why})" if why else what)
        self.what = what
        self.why = why
        self.code = code or self.code
        self.hint = hint or self.hint

    def __reduce__(self) -> tuple[object, ...]:
        """To another process and back as it is, whatever a subclass is made from."""
        return _again, (type(self), self.args, self.__dict__)

    def text(self, who: str = "error", *, coded: bool = False) -> str:
        """What a terminal shows: `who: what`, then why and what next where they are known."""
        lines = [f"{who}: {self.what}" + (f" [{self.code}]" if coded else "")]
        if self.why:
            lines.append(f"  why:  {self.why}")
        if self.hint:
            lines.append(f"  next: {self.hint}")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, str]:
        """The same for programs."""
        return {"code": self.code, "what": self.what, "why": self.why, "hint": self.hint}


def _again(kind: type[PqError], args: tuple[object, ...], state: dict[str, object]) -> PqError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error
