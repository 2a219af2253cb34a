"""Traces over all processes: OpenTelemetry spans, handed on in W3C headers.

Without an exporter (``export_traces``) spans cost next to nothing and are nowhere; the context of a
caller that traces is handed on all the same. Spans hold ids, counts and times: no screen, no text
of a task or a model, no key, no query.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Literal

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from agentserve import __version__
from agentserve.core.config import service_name
from agentserve.core.errors import AgentServeError, InvalidRequest

log = logging.getLogger(__name__)
HEADERS = ("traceparent", "tracestate")
"""W3C's. SGLang takes them too."""
FLUSH_S = 3.0
"""How long a process that ends waits for a collector to take its last spans."""
MISSING = "pip install 'agentserve[trace]'"
"""What brings the exporter."""

_KINDS = {"internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT, "server": SpanKind.SERVER}
_W3C = TraceContextTextMapPropagator()
_tracer = trace.get_tracer("agentserve", __version__)


@contextmanager
def span(
    name: str,
    kind: Literal["internal", "client", "server"] = "internal",
    *,
    parent: Context | None = None,
    http: Mapping[str, str | int] | None = None,
    **told: str | int | bool,
) -> Iterator[Span]:
    """A span for the time of the block; below ``parent``, by default below the current one.

    ``told`` becomes attributes ``agentserve.…``, ``http`` attributes of OpenTelemetry's own names.
    An error is told by its code alone: its words may hold what must not be in a trace.
    """
    attributes = {**(http or {}), **{f"agentserve.{name}": value for name, value in told.items()}}
    with _tracer.start_as_current_span(
        name,
        context=parent,
        kind=_KINDS[kind],
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as current:
        try:
            yield current
        except BaseException as error:  # cancellation included
            failed(current, error.code if isinstance(error, AgentServeError) else _kind(error))
            raise


def tell(current: Span, **told: str | int | bool | None) -> None:
    """More attributes of a span; those that are None are left out."""
    for name, value in told.items():
        if value is not None:
            current.set_attribute(f"agentserve.{name}", value)


def failed(current: Span, code: str) -> None:
    current.set_attribute("error.type", code)
    current.set_status(Status(StatusCode.ERROR))


def headers() -> dict[str, str]:
    """What a request takes along, so that the other side's spans are below the current one. Empty
    when there is none."""
    carried: dict[str, str] = {}
    _W3C.inject(carried)
    return carried


def parent_in(carried: Mapping[str, str]) -> Context:
    """The caller's context, from a request's headers; an empty one when they hold none."""
    return _W3C.extract(carried, context=Context())


def begin_anew() -> None:
    """For a task that outlives the request which started it: its spans are not that one's."""
    contexts.attach(Context())


def ids() -> dict[str, str]:
    """``trace_id`` and ``span_id`` of the current span, if there is one."""
    current = trace.get_current_span().get_span_context()
    if not current.is_valid:
        return {}
    return {
        "trace_id": trace.format_trace_id(current.trace_id),
        "span_id": trace.format_span_id(current.span_id),
    }


def can_export() -> bool:
    """Whether the packages of the extra ``trace`` are installed."""
    try:
        return find_spec("opentelemetry.exporter.otlp.proto.http") is not None
    except ModuleNotFoundError:
        return False


def check_export() -> None:
    """Raises InvalidRequest."""
    if not can_export():
        raise InvalidRequest("traces need OpenTelemetry's SDK, which is missing", hint=MISSING)


@contextmanager
def exporting(service: str, wanted: bool) -> Iterator[None]:
    """Send this process's spans over OTLP (HTTP) for the time of the block, if it is wanted. Where
    to, how many and how is set by OpenTelemetry's own variables. Once in a process.

    Raises InvalidRequest without the packages. A collector that is down costs spans, and at the end
    no more than FLUSH_S.
    """
    if not wanted:
        yield
        return
    check_export()
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    about = {"service.name": service_name(service), "service.version": __version__}
    provider = TracerProvider(resource=Resource.create(about), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    try:
        yield
    finally:
        # in a thread that dies with the process: it may hang on a collector
        ending = threading.Thread(target=provider.shutdown, daemon=True)
        ending.start()
        ending.join(FLUSH_S)


def _kind(error: BaseException) -> str:
    return type(error).__name__
