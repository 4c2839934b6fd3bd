"""The `meta:*` key of turns from an AI SDK UI message stream: fields of UI messages that ThreadProtocol lacks.

It is not part of the canonical hash; `export` restores the UI messages from it. Its value is an object, in the wire's
own names:

    turn             id, metadata (of the UI message)
    response         step (false: the SDK has it in one step with the response before), cut (true: an error cut it off)
    text, thinking   id, providerMetadata, citations
    call             dynamic, title, toolMetadata, callProviderMetadata, providerExecuted (where it is false),
                     approval, input ([as it came], where `args` can't be), inputError, rawInput (true: the SDK shows it
                     under that name), preliminary ([value]: a first result without a final one)
    return           providerMetadata; call (the UI part of the call, where an earlier run made it)
    file             providerMetadata, type (reasoning-file), url (where its content doesn't give it back)
    custom           providerMetadata
    user prompt      id, metadata, filenames (by index in the content), parts (those that are no text and no file),
                     steering (all parts of a steering-message), enqueued (true: a data part holds it, too)
    system message   fields of the event beside its type and data; of a source: providerMetadata
"""

from typing import Final

META: Final = "meta:vercel"
DENIED: Final = "The tool call was denied."
