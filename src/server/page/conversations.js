// Conversations, kept in this browser: [{id, title, isNamed, system, messages}], the newest first. Messages are those of branches.js.
import { dropVersion, everyMessage } from "./branches.js";
import { conversationOf, MOST_CONVERSATIONS } from "./conversation_files.js";
import { keep, recall } from "./dom.js";

const TITLE_LETTERS = 60;
const EXCERPT_LETTERS = 30;  // on each side of what was found
const NEW_TITLE = "New conversation";

export class Conversations {
  constructor() {
    const kept = recall("conversations", []);
    this.list = (Array.isArray(kept) ? kept : []).flatMap(keptConversation).slice(0, MOST_CONVERSATIONS);
    if (this.list.length === 0) this.add();
    const last = recall("conversation", "");
    this.current = this.list.find(({ id }) => id === last) ?? this.list[0];
  }

  /// Begins one. An empty one that is there already serves.
  add() {
    const empty = this.list.find(({ messages }) => messages.length === 0);
    if (!empty) {
      this.list.unshift({ id: newId(), title: NEW_TITLE, isNamed: false, system: "", messages: [] });
      this.list.length = Math.min(this.list.length, MOST_CONVERSATIONS);
    }
    this.current = empty ?? this.list[0];
    return this.current;
  }

  /// Adds conversations of a file to the front, without those that are there already, and shows the first of them: how many
  /// were added. Throws an Error with one sentence, and adds none of them, where the browser would not keep them all.
  addAll(conversations) {
    const before = this.list;
    const known = new Set(before.map(contentOf));
    const added = conversations.filter((each) => !known.has(contentOf(each)));
    if (added.length === 0) return 0;
    const others = before.filter(({ system, messages }) => system !== "" || messages.length > 0);
    if (added.length + others.length > MOST_CONVERSATIONS) {
      throw new Error(`the file has ${added.length} new conversations, and there are ${others.length} already; ` +
                      `the page keeps at most ${MOST_CONVERSATIONS}`);
    }
    this.list = [...added.map((each) => ({ ...each, id: newId(), isNamed: true })), ...others];
    const { current } = this;
    [this.current] = this.list;
    if (this.save()) return added.length;
    this.list = before;
    this.current = current;
    this.save();
    throw new Error("the browser has no room for these conversations; delete some first");
  }

  select(conversation) {
    this.current = conversation;
    keep("conversation", conversation.id);
  }

  rename(conversation, title) {
    Object.assign(conversation, { title, isNamed: true });
    return this.save();
  }

  remove(conversation) {
    this.list = this.list.filter((other) => other !== conversation);
    if (this.current === conversation) this.current = this.list[0] ?? this.add();
    return this.save();
  }

  /// The conversations in which each word of `text` occurs, in the title, the system message or a message, whatever the case:
  /// [{conversation, excerpt}]. The excerpt has the first word that the title lacks; null: the title has all.
  find(text) {
    const words = text.toLowerCase().split(/\s+/).filter((word) => word !== "");
    return this.list.flatMap((conversation) => {
      const title = conversation.title.toLowerCase();
      const texts = [conversation.system, ...everyMessage(conversation.messages).map(({ content }) => content)];
      const inTexts = words.filter((word) => !title.includes(word)).map((word) => excerptOf(texts, word));
      return inTexts.includes(null) ? [] : [{ conversation, excerpt: inTexts[0] ?? null }];
    });
  }

  /// False: the browser keeps nothing more.
  save() {
    for (const each of this.list) {
      const beginning = each.messages[0]?.content.trim().slice(0, TITLE_LETTERS);
      if (!each.isNamed) each.title = beginning || NEW_TITLE;
    }
    return keep("conversations", this.list) && keep("conversation", this.current.id);
  }
}

const newId = () => crypto.getRandomValues(new Uint32Array(2)).join("-");
const contentOf = ({ title, system, messages }) => JSON.stringify([title, system, messages]);

/// [before, word, after] in the first text that has the word; null: none has it.
function excerptOf(texts, word) {
  for (const text of texts) {
    const at = text.toLowerCase().indexOf(word);
    if (at < 0) continue;
    const begin = Math.max(at - EXCERPT_LETTERS, 0);
    const end = at + word.length;
    return [(begin > 0 ? "…" : "") + text.slice(begin, at), text.slice(at, end), text.slice(end, end + EXCERPT_LETTERS)];
  }
  return null;
}

/// [the conversation], or [] where what was kept is damaged.
function keptConversation(value) {
  try {
    const { id } = value;
    if (typeof id !== "string") return [];
    const conversation = { ...conversationOf(value, "conversation"), id, isNamed: value.isNamed === true };
    const { messages } = conversation;
    // The page was closed while it was being written.
    if (messages.at(-1)?.role === "assistant" && messages.at(-1).content === "") dropVersion(messages, messages.length - 1);
    return [conversation];
  } catch {
    return [];
  }
}
