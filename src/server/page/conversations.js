// Conversations, kept in this browser: [{id, title, isNamed, system, messages: [{role, content}]}], the newest first.
import { keep, recall } from "./dom.js";

const MOST_CONVERSATIONS = 200;
const TITLE_LETTERS = 60;
const NEW_TITLE = "New conversation";

export class Conversations {
  constructor() {
    this.list = recall("conversations", []).filter(isConversation);
    if (this.list.length === 0) this.add();
    const last = recall("conversation", "");
    this.current = this.list.find(({ id }) => id === last) ?? this.list[0];
  }

  /// Begins one. An empty one that is there already serves.
  add() {
    const empty = this.list.find(({ messages }) => messages.length === 0);
    if (!empty) {
      const id = crypto.getRandomValues(new Uint32Array(2)).join("-");
      this.list.unshift({ id, title: NEW_TITLE, isNamed: false, system: "", messages: [] });
      this.list.length = Math.min(this.list.length, MOST_CONVERSATIONS);
    }
    this.current = empty ?? this.list[0];
    return this.current;
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

  /// False: the browser keeps nothing more.
  save() {
    for (const each of this.list) {
      const beginning = each.messages[0]?.content.trim().slice(0, TITLE_LETTERS);
      if (!each.isNamed) each.title = beginning || NEW_TITLE;
    }
    return keep("conversations", this.list) && keep("conversation", this.current.id);
  }
}

function isConversation(value) {
  return typeof value?.id === "string" && typeof value.title === "string" && Array.isArray(value.messages) &&
    value.messages.every(({ role, content } = {}) => ["user", "assistant"].includes(role) && typeof content === "string");
}
