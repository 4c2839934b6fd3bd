// What may fail, and a message that says so.

/** Does `work`, and shows the text that it promises, if it does; where it fails, `message` says why. */
export async function attempt(message, signal, work) {
  message.classList.remove("problem");
  try {
    const text = await work();
    if (text !== undefined) message.textContent = text;
  } catch (error) {
    if (signal.aborted) return;
    message.textContent = error.message;
    message.classList.add("problem");
  }
}
