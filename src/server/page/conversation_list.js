// The list of conversations: search, names, files.
import { conversationsOf, fileOf } from "./conversation_files.js";
import { askText, askYes } from "./dialogs.js";
import { by, keep, make, recall, saveFile } from "./dom.js";

const WIDE = matchMedia("(width >= 64rem)");  // the list stands next to the messages, as chat.css has it; elsewhere it is a drawer

export class ConversationList {
  /// `onChange` hears that another conversation is shown, or that one was changed.
  constructor(conversations, onChange) {
    this.conversations = conversations;
    this.onChange = onChange;
    by("show-list").addEventListener("click", () => this.toggle());
    by("sidebar").addEventListener("toggle", () => this.tellWhetherOpen());
    WIDE.addEventListener("change", () => this.open(WIDE.matches && recall("list", true)));
    this.open(WIDE.matches && recall("list", true));
    by("new-conversation").addEventListener("click", () => this.begin());
    by("find-conversation").addEventListener("input", () => this.show());
    by("export-conversation").addEventListener("click", () => saveConversations("lacuna-conversation.json", [conversations.current]));
    by("export-all").addEventListener("click", () => saveConversations("lacuna-conversations.json", conversations.list));
    by("import").addEventListener("change", async () => {
      const [file] = by("import").files;
      if (file) await this.import(file);
      by("import").value = "";
    });
  }

  begin() {
    this.conversations.add();
    this.save();
    this.leave();
    by("prompt").focus();
  }

  save() {
    by("storage-error").hidden = this.conversations.save();
  }

  async rename(conversation = this.conversations.current) {
    const title = await askText("Name of the conversation", conversation.title);
    if (title === null) return;
    this.conversations.rename(conversation, title);
    this.onChange();
  }

  async remove(conversation = this.conversations.current) {
    if (!(await askYes(`Delete “${conversation.title}”?`, "Delete"))) return;
    this.conversations.remove(conversation);
    this.onChange();
  }

  async import(file) {
    by("import-note").textContent = "";
    by("import-error").textContent = "";
    try {
      const read = await conversationsOf(file);
      const added = this.conversations.addAll(read);
      const known = read.length === added ? "" : `; ${read.length - added} were there already`;
      by("import-note").textContent = `${file.name}: ${added} added${known}.`;
      this.onChange();
    } catch (error) {
      by("import-error").textContent = `${file.name}: ${error.message}.`;
    }
  }

  /// Opens the list at its search field.
  find() {
    this.open(true);
    by("find-conversation").select();
  }

  get isOpen() {
    return WIDE.matches ? !document.querySelector("main").classList.contains("bare-list") : by("sidebar").matches(":popover-open");
  }

  open(isOpen) {
    document.querySelector("main").classList.toggle("bare-list", !isOpen);
    by("sidebar").togglePopover(isOpen && !WIDE.matches);
    this.tellWhetherOpen();
  }

  tellWhetherOpen() {
    by("show-list").setAttribute("aria-expanded", this.isOpen);
  }

  toggle() {
    this.open(!this.isOpen);
    if (WIDE.matches) keep("list", this.isOpen);
    (this.isOpen ? by("new-conversation") : by("show-list")).focus();
  }

  /// Another conversation is shown: a drawer has done its work.
  leave() {
    if (!WIDE.matches) this.open(false);
    this.onChange();
  }

  show() {
    const text = by("find-conversation").value;
    const found = this.conversations.find(text);
    by("conversations").replaceChildren(...found.map((each) => this.entryOf(each)));
    by("found").textContent = text.trim() === "" ? "" : `${found.length} of ${this.conversations.list.length} conversations have these words.`;
  }

  entryOf({ conversation, excerpt }) {
    const { title } = conversation;
    const open = make("button", { type: "button", className: "open", onclick: () => {
      this.conversations.select(conversation);
      this.leave();
    } }, make("span", { className: "title" }, title));
    if (excerpt) open.append(make("small", { className: "excerpt" }, excerpt[0], make("mark", {}, excerpt[1]), excerpt[2]));
    if (conversation === this.conversations.current) open.setAttribute("aria-current", "true");
    return make("li", {}, open,
                tool("✎", `Rename ${title}`, () => this.rename(conversation), "Rename"),
                tool("✕", `Delete ${title}`, () => this.remove(conversation), "Delete"));
  }
}

/// A small button. `label` is its name where the text alone does not say enough.
export function tool(text, label, onclick, title = "") {
  const button = make("button", { type: "button", className: "tool", onclick, title }, text);
  if (label !== "") button.setAttribute("aria-label", label);
  return button;
}

function saveConversations(name, conversations) {
  saveFile(name, new Blob([fileOf(conversations)], { type: "application/json" }));
}
