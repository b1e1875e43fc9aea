"""The tools of presence: say what one works on, take it back, ask who else does (seed, h). They block nobody.

Paths are relative to the directory in which the server was started, and links are resolved on its disk.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from kranzq.errors import UsageFault
from kranzq.mcp.caller import Caller
from kranzq.mcp.telling import told
from kranzq.model.presence import NewPresence, Whereabouts, subject_of
from kranzq.model.who import OTHERS_WORDS, Question, question_about, question_of, subject_text

Path = Annotated[str, Field(description="A file or folder, relative to where you work, or absolute.")]
Repo = Annotated[str, Field(description="owner/repo, host/owner/repo or a git URL; else the one that you work in.")]
Branch = Annotated[str, Field(description="A branch, by its whole name.")]
Answer = dict[str, object]
PR_NOTE = "pr was ignored: pull requests are not looked up. Name its branch to ask about it."


class PresenceTools:
    """The tools, for one caller. The docstring of each is what its agent reads."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def claim(
        self,
        path: Path = "",
        repo: Repo = "",
        branch: Branch = "",
        topic: Annotated[str, Field(description="What it is about, where no path says it.")] = "",
        note: Annotated[str, Field(description="What others should know, in a line.")] = "",
        ttl_minutes: Annotated[int | None, Field(description="How long it lasts: 5 to 1440, else 120.")] = None,
    ) -> Answer:
        """Leave a presence note: tell other agents what you work on, before you begin to change it.

        It blocks nobody and vanishes by itself; the same call again renews it. The answer tells who else works on it:
        if somebody does, talk to them, or work on something else first.
        """
        with told():
            here, who = self._caller.here.whereabouts(), self._caller.holder()
            about: dict[str, Any] = {"repo": repo or None, "branch": branch or None, "topic": topic or None}
            if branch and not path and not repo and here is not None:
                about["repo"] = here.repo
            subject = subject_of(**self._place(path, here, repo), **about)
            presence = self._caller.store().presence
            put = presence.put(NewPresence(who, subject, note, ttl_minutes, here.repo if here is not None else None))
            others = presence.who(question_about(put.claim), caller=who)
            return {
                "claim": put.claim.to_json(),
                "claimed": subject_text(put.claim.subject),
                "renewed": put.renewed,
                "others_working_on_it": [one.to_json() for one in others],
                "note": OTHERS_WORDS,
            }

    def release(
        self,
        id: Annotated[str, Field(description="The id of the note; empty: all of yours.")] = "",  # noqa: A002
    ) -> Answer:
        """Take a presence note of yours back, or all of them, when you are done. Another agent's stays."""
        with told():
            presence = self._caller.store().presence
            ended = presence.release(self._caller.holder(), id or None)
            note = ""
            if id and not ended:
                stays = any(one.id == id for one in presence.live())
                note = "It is another agent's note, and stays." if stays else "There is no such note any more."
            return {"released": [one.to_json() for one in ended], "note": note}

    def who(
        self,
        path: Path = "",
        repo: Repo = "",
        branch: Branch = "",
        pr: Annotated[str | int, Field(description="Not looked up: name its branch instead.")] = "",
        query: Annotated[str, Field(description="Words that must all occur in a topic, note or path.")] = "",
    ) -> Answer:
        """Ask by presence note who else works on a path, branch or words; with nothing named, on your repository.

        Ask before you change what others may be changing. The answer is information: nobody is blocked.
        """
        with told():
            has_pr = bool(str(pr).strip())
            if has_pr and not any(text.strip() for text in (path, repo, branch, query)):
                raise UsageFault(
                    "A pull request alone cannot be asked about: they are not looked up.",
                    "Name its branch, a path or words.",
                )
            here, me = self._caller.here.whereabouts(), self._caller.holder()
            asked: dict[str, Any] = {"repo": repo or None, "branch": branch or None, "query": query or None}
            question = question_of(**self._place(path, here, repo), **asked)
            found = self._caller.store().presence.who(question, caller=me)
            answer: Answer = {
                "asked": _asked(question, query),
                "caller": {
                    "agent": me.name,
                    "repo": here.repo if here is not None else None,
                    "branch": here.branch if here is not None else None,
                },
                "agents": [one.to_json() for one in found],
                "remote_agents": [],
                "unreachable_channels": [],
                "note": OTHERS_WORDS if found else "Nobody else says so.",
            }
            return answer | ({"pr_note": PR_NOTE} if has_pr else {})

    def _place(self, path: str, here: Whereabouts | None, repo: str) -> dict[str, Any]:
        return self._caller.here.place(path, here, repo or None) if path.strip() else {"here": here}


def _asked(question: Question, query: str) -> Answer:
    return {
        "repo": question.repo,
        "path": question.path,
        "absolute_path": question.absolute_path,
        "branch": question.branch,
        "query": query or None,
    }
