"""A service for the process tests: argv[1] says how its main behaves."""

import asyncio
import contextlib
import sys
import time

import structlog

from kvberth.service import ServiceContext, ServiceError, ServiceSettings, serve


async def obedient(context: ServiceContext[ServiceSettings]) -> None:
    await context.stopping.wait()


async def deaf(context: ServiceContext[ServiceSettings]) -> None:
    """Never looks at `stopping`, but can be cancelled."""
    await asyncio.Event().wait()


async def slow(context: ServiceContext[ServiceSettings]) -> None:
    """Has work to finish after it was told to stop."""
    await context.stopping.wait()
    await asyncio.sleep(0.3)
    structlog.get_logger().info("work is finished")


async def stubborn(context: ServiceContext[ServiceSettings]) -> None:
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()


async def leftover(context: ServiceContext[ServiceSettings]) -> None:
    """Ends, and leaves a task that doesn't."""
    context.telemetry.left = asyncio.create_task(stubborn(context), name="left-behind")
    await asyncio.sleep(0)


async def blocked(context: ServiceContext[ServiceSettings]) -> None:
    await asyncio.sleep(0.3)
    time.sleep(600)  # noqa: ASYNC251 -- blocking the loop is what this one is for


async def failing(context: ServiceContext[ServiceSettings]) -> None:
    raise ServiceError("The cluster has no name; set KVBERTH_CLUSTER.")


async def failing_in_a_group(context: ServiceContext[ServiceSettings]) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(deaf(context))
        group.create_task(failing(context))


async def crashing(context: ServiceContext[ServiceSettings]) -> None:
    raise LookupError("no such pod")


async def cancelled(context: ServiceContext[ServiceSettings]) -> None:
    raise asyncio.CancelledError


async def finishing(context: ServiceContext[ServiceSettings]) -> None:
    return


if __name__ == "__main__":
    serve("sample", ServiceSettings, globals()[sys.argv[1]])
