"""A Prometheus server (or Thanos, Mimir, VictoriaMetrics) as it answers: in time, typed, with its warnings."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import local
from time import monotonic
from typing import Any

import requests
from prometheus_api_client import PrometheusConnect
from prometheus_api_client.exceptions import PrometheusApiClientException
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random
from urllib3 import Retry
from urllib3.exceptions import HTTPError, ProtocolError

from tuner.feeds.http import CONNECT_S, Access, UnansweredError, body_of, refuse, why

BYTES_MAX = 64 << 20
"""Of one answer: ten thousand series with some minutes of samples."""
ATTEMPTS = 2
"""A restarting or overloaded server is asked once more; after that the next tick asks."""
PAUSE_S = 0.2
"""Before the second attempt, at most."""
LEFT_S_MIN = 0.1
"""With less time left nothing is begun."""
ERROR_BYTES_MAX = 1 << 16
ODD_FORM = "its answer has not the form that Prometheus gives"
TEXT_MAX = 300
"""Of a server's own words, in a message."""


@dataclass(frozen=True, slots=True)
class Series:
    """A series' labels (its name among them) and its samples, oldest first."""

    labels: Mapping[str, str]
    samples: Sequence[Sequence[Any]]
    """(server's time, value) as the server writes them: of thousands of samples most are known already, and only new
    ones are worth a conversion. A value may be NaN or infinite."""

    @property
    def latest(self) -> float:
        """The value of the last sample; raises UnansweredError where it is no number."""
        try:
            return float(self.samples[-1][1])
        except (LookupError, TypeError, ValueError):
            raise UnansweredError(ODD_FORM) from None


@dataclass(frozen=True, slots=True)
class Answer:
    series: tuple[Series, ...]
    warnings: tuple[str, ...] = ()
    """What the server says is doubtful: partial results, a source that is down."""


class Server:
    """One thread has one connection; nothing is shared between threads but the address and how to be let in."""

    def __init__(self, url: str, access: Access) -> None:
        self._url = url
        self._access = access
        self._own = local()
        self._sessions: list[requests.Session] = []

    def query(self, promql: str, deadline_at: float, at_s: float | None = None) -> Answer:
        """The answer to an instant query; raises UnansweredError, at the latest at `deadline_at` (of monotonic)."""
        params = {"time": f"{at_s:.3f}"} if at_s is not None else {}

        def ask(client: PrometheusConnect, left_s: float) -> object:
            return client.custom_query(
                promql, params={**params, "timeout": f"{round(left_s * 1000)}ms"}, timeout=left_s
            )

        result, warnings = self._patiently(ask, deadline_at)
        if not isinstance(result, list):
            raise UnansweredError("its answer is no list of series")
        return Answer(tuple(series_in(item) for item in result), warnings)

    def names(self, match: str | None, deadline_at: float) -> frozenset[str]:
        """All metric names that the server knows (of series that `match` selects)."""
        params = {"match[]": match} if match is not None else {}
        result, _ = self._patiently(lambda client, _: client.all_metrics(params=params), deadline_at)
        if not isinstance(result, list):
            raise UnansweredError("its list of names is no list")
        return frozenset(name for name in result if isinstance(name, str))

    def _patiently(self, ask: Any, deadline_at: float) -> tuple[object, tuple[str, ...]]:
        """One question, once more where the server may only be busy."""

        def may_help(fault: BaseException) -> bool:
            return (
                isinstance(fault, UnansweredError) and fault.again and monotonic() < deadline_at - PAUSE_S - LEFT_S_MIN
            )

        retrying = Retrying(
            stop=stop_after_attempt(ATTEMPTS),
            wait=wait_random(0.0, PAUSE_S),
            retry=retry_if_exception(may_help),
            reraise=True,
        )
        return retrying(self._once, ask, deadline_at)

    def _once(self, ask: Any, deadline_at: float) -> tuple[object, tuple[str, ...]]:
        left_s = deadline_at - monotonic()
        if left_s < LEFT_S_MIN:
            raise UnansweredError("no time was left to ask")
        client, session = self._client()
        session.deadline_at = deadline_at
        try:
            return ask(client, left_s), session.warned
        except requests.exceptions.JSONDecodeError:
            raise UnansweredError("its answer is no JSON: not a Prometheus server, or a proxy before it") from None
        except requests.RequestException as fault:
            raise _translated(fault) from None
        except HTTPError as fault:
            raise UnansweredError(why(fault), again=isinstance(fault, ProtocolError)) from None
        except (KeyError, TypeError, ValueError):
            raise UnansweredError(ODD_FORM) from None
        except PrometheusApiClientException as fault:
            raise UnansweredError(str(fault)[:TEXT_MAX]) from None

    def _client(self) -> "tuple[PrometheusConnect, _Session]":
        if not hasattr(self._own, "client"):
            session = _Session(self._access)
            self._sessions.append(session)
            no_retry = Retry(total=0, redirect=False)
            self._own.session = session
            self._own.client = PrometheusConnect(url=self._url, session=session, retry=no_retry)
        return self._own.client, self._own.session

    def close(self) -> None:
        for session in self._sessions:
            session.close()


class _Session(requests.Session):
    """What the client library lacks: a deadline for the whole answer, a limit of its size, secrets that rotate, and
    the warnings, which it drops."""

    def __init__(self, access: Access) -> None:
        super().__init__()
        self._access = access
        self.trust_env = False  # a .netrc entry would take the place of the token
        self.deadline_at = 0.0
        self.warned: tuple[str, ...] = ()
        if access.ca_file is not None:
            self.verify = str(access.ca_file)

    def request(self, method: Any, url: Any, *args: Any, **kwargs: Any) -> requests.Response:
        left_s = max(LEFT_S_MIN, self.deadline_at - monotonic())
        kwargs |= {"stream": True, "allow_redirects": False, "timeout": (min(CONNECT_S, left_s), left_s)}
        kwargs["headers"] = {**(kwargs.get("headers") or {}), **self._access.headers()}
        response = super().request(method, url, *args, **kwargs)
        try:
            if response.status_code >= 400:
                raise _refused(response, self.deadline_at, self._access)
            body = self._access.hidden(body_of(response.raw, self.deadline_at, BYTES_MAX))
        finally:
            response.close()
        refuse(response.status_code, response.headers, body)
        response.raw = io.BytesIO(body)
        self.warned = _warnings(response, body)
        return response


def _warnings(response: requests.Response, body: bytes) -> tuple[str, ...]:
    if b'"warnings"' not in body[-1 << 16 :] and b'"warnings"' not in body[:256]:
        return ()
    told = response.json().get("warnings") or ()
    return tuple(_plain(text) for text in told if isinstance(text, str))[:8]


def _refused(response: requests.Response, deadline_at: float, access: Access) -> UnansweredError:
    """Why, with the server's own words where it has some: Prometheus explains a 4xx and 5xx in JSON."""
    status = response.status_code
    try:
        refuse(status, response.headers)
    except UnansweredError as fault:
        try:
            body = access.hidden(body_of(response.raw, deadline_at, ERROR_BYTES_MAX))
            response.raw = io.BytesIO(body)
            told = response.json().get("error", "")
        except (UnansweredError, ValueError, AttributeError, OSError):
            return fault
        said = f"{fault}: {_plain(told)}" if isinstance(told, str) and told else str(fault)
        return UnansweredError(said, fault.again)
    return UnansweredError(f"HTTP {status}")


def _plain(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text[:TEXT_MAX])


def _translated(fault: requests.RequestException) -> UnansweredError:
    """In our words: those of the library hold addresses and whatever was sent."""
    match fault:
        case requests.exceptions.SSLError():
            return UnansweredError(
                why(fault.args[0].reason) if fault.args and hasattr(fault.args[0], "reason") else "TLS fails"
            )
        case requests.exceptions.ConnectTimeout():
            return UnansweredError("cannot connect in time")
        case requests.exceptions.Timeout():
            return UnansweredError("no answer in time")
        case requests.exceptions.ConnectionError():
            inner = fault.args[0] if fault.args else fault
            return UnansweredError(why(getattr(inner, "reason", inner)), again=True)
    return UnansweredError(type(fault).__name__)


def series_in(item: object) -> Series:
    """One entry of a vector or matrix; raises UnansweredError where it is neither."""
    match item:
        case {"metric": dict(labels), "values": list(samples)}:
            return Series(labels, samples)
        case {"metric": dict(labels), "value": list(sample)}:
            return Series(labels, [sample])
    raise UnansweredError(ODD_FORM)
