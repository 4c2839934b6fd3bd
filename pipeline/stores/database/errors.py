"""The branch of the error tree (`turnmill.errors`) that only the pipeline knows: the store's."""

from turnmill.errors import CallerError, TurnmillError


class StoreError(TurnmillError):
    """The store is missing, refuses us, or has another schema; `transient`: the same call may work later."""

    exit_code = 4

    def __init__(self, message: str, *, transient: bool = False) -> None:
        super().__init__(message)
        self.transient = transient


class UnstorableData(StoreError):
    """The thread store works, but can't store some record of the batch."""


class HeldThread(CallerError):
    """The thread is held: it is not deleted until it is released."""
