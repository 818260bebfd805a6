"""How a program uses the package, for type checkers: every line must have the type that it says, and no other."""

from __future__ import annotations

from typing import TYPE_CHECKING, List, Optional, Union

from zml import (
    ZML,
    AsyncStream,
    AsyncZML,
    ChatCompletion,
    ChatCompletionChunk,
    Completion,
    CompletionChunk,
    Routing,
    SaturatedFamily,
    SaturationError,
    Stream,
)

if TYPE_CHECKING:
    from typing_extensions import assert_type


def blocking(client: ZML, flag: bool) -> None:
    answer = client.infer(model="m", messages=[{"role": "user", "content": "hello"}], temperature=0.5)
    assert_type(answer, ChatCompletion)
    assert_type(answer.text, str)
    assert_type(answer.routing, Optional[Routing])
    assert_type(answer.choices[0].message.content, Optional[str])
    assert_type(answer.created, int)
    assert_type(client.infer("m", prompt="Once"), Completion)
    stream = client.infer("m", [], stream=True)
    assert_type(stream, Stream[ChatCompletionChunk])
    for chunk in stream:
        assert_type(chunk.choices[0].delta.content, Optional[str])
    assert_type(client.infer("m", prompt="Once", stream=True), Stream[CompletionChunk])
    assert_type(
        client.infer("m", [], stream=flag),
        Union[ChatCompletion, Completion, Stream[ChatCompletionChunk], Stream[CompletionChunk]],
    )
    assert_type(client.embed("m", "text").data[0].embedding, Union[List[float], str])
    assert_type([model.id for model in client.models.list()], List[str])
    assert_type(client.decisions.explain("x").decision, str)
    answer.chioces  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


async def awaiting(client: AsyncZML) -> None:
    assert_type(await client.infer("m", []), ChatCompletion)
    async with await client.infer("m", [], stream=True) as stream:
        assert_type(stream, AsyncStream[ChatCompletionChunk])
        async for chunk in stream:
            assert_type(chunk.text, str)


def failing(client: ZML) -> None:
    try:
        client.infer("m", prompt="Once")
    except SaturationError as error:
        assert_type(error.families, List[SaturatedFamily])
        assert_type(error.retry_after, Optional[float])
