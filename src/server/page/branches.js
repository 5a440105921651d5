// Versions of a conversation from some message on. A message that was written again holds its other versions, each with all that
// followed it: {role, content, before: [tails], after: [tails]}, where a tail is a list of messages that begins with such a version.

/// Puts the messages from `index` on away. The message that takes their place is made with what this gives.
export function putAway(messages, index) {
  const { before, tail, after } = take(messages, index);
  return { before: [...before, tail, ...after], after: [] };
}

/// Shows the version before (-1) or after (1) the one that begins at `index`.
export function showVersion(messages, index, step) {
  const { before, tail, after } = take(messages, index);
  if (step < 0) put(messages, before.pop(), before, [tail, ...after]);
  else put(messages, after.shift(), [...before, tail], after);
}

/// Removes the messages from `index` on, and shows another version of them where there is one.
export function dropVersion(messages, index) {
  const { before, after } = take(messages, index);
  const next = before.pop() ?? after.shift();
  if (next) put(messages, next, before, after);
}

/// {at, count}: which version of the message this is, from 1 on, and how many there are.
export function versionsOf({ before = [], after = [] }) {
  return { at: before.length + 1, count: before.length + 1 + after.length };
}

/// All messages, those of other versions included.
export function everyMessage(messages) {
  return messages.flatMap((message) => {
    const tails = [...(message.before ?? []), ...(message.after ?? [])];
    return [message, ...tails.flatMap(everyMessage)];
  });
}

function take(messages, index) {
  const tail = messages.splice(index);
  const { before = [], after = [] } = tail[0];
  delete tail[0].before;
  delete tail[0].after;
  return { before, tail, after };
}

function put(messages, tail, before, after) {
  if (before.length + after.length > 0) Object.assign(tail[0], { before, after });
  messages.push(...tail);
}
