#include "constraint/schema_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <deque>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/budget.h"
#include "base/error.h"
#include "base/json.h"
#include "base/name_list.h"
#include "constraint/json_texts.h"

namespace lacuna {
namespace {

using nlohmann::ordered_json;

constexpr int kOutlineDepth = 8;

// Costs in steps of a Budget.
constexpr size_t kStepsPerReader = 20;  // creating a reader
constexpr size_t kStepsPerText = 30;    // keeping a short text
constexpr size_t kStepsPerLookUp = 8;   // looking up a short text
constexpr size_t kStepsPerByte = 4;     // writing a byte of a canonical text
constexpr size_t kLongObject = 16;      // objects with this many members get an index

std::string shown(const ordered_json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return fmt::format("a list of {}", value.size());
  if (value.is_string()) return in_quotes(value.get_ref<const std::string&>());
  return value.dump();
}

/// Escapes a key as a reference token of a JSON pointer.
std::string escaped(std::string_view key) {
  std::string part;
  for (const char c : key) part += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return part;
}

/// The key that a reference token of a JSON pointer in a URI names.
std::string unescaped(std::string_view part) {
  std::string bytes;
  for (size_t i = 0; i < part.size(); ++i) {
    unsigned value = 0;
    if (part[i] == '%' && i + 2 < part.size() &&
        std::from_chars(part.data() + i + 1, part.data() + i + 3, value, 16).ptr == part.data() + i + 3) {
      bytes += static_cast<char>(value);
      i += 2;
    } else {
      bytes += part[i];
    }
  }
  std::string key;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const bool is_escape =
        bytes[i] == '~' && i + 1 < bytes.size() && (bytes[i + 1] == '0' || bytes[i + 1] == '1');
    key += is_escape ? (bytes[i + 1] == '0' ? '~' : '/') : bytes[i];
    if (is_escape) ++i;
  }
  return key;
}

/// Whether all numbers were parsed exactly. Integers beyond 64 bits are parsed as doubles.
bool is_exact(const ordered_json& value) {
  if (value.is_number_float()) return std::abs(value.get<double>()) < kMaxExactInteger;
  if (!value.is_structured()) return true;
  return std::ranges::all_of(value, [](const ordered_json& part) { return is_exact(part); });
}

/// Charges the Budget for a set of copies of `texts`.
template <typename Texts>
void spend_copy(const Texts& texts) {
  constexpr size_t kBytesOfNode = 48;
  spend_steps((texts.size() + 1) * kStepsPerText);
  for (const std::string& text : texts) spend_bytes(sizeof(std::string) + text.size() + kBytesOfNode);
}

bool have_common(const std::set<std::string>& a, const std::set<std::string>& b) {
  spend_steps(a.size() * kStepsPerLookUp);
  return std::ranges::any_of(a, [&](const std::string& text) { return b.contains(text); });
}

}  // namespace

/// The path of a schema: below a keyword of its parent, or a path of its own (kText).
struct SchemaReader::Place {
  enum class Kind { kText, kKeyword, kMember, kItem };
  Kind kind = Kind::kText;
  std::string_view keyword = {};  // kText: the whole path
  std::string_view key = {};
  size_t index = 0;
  std::shared_ptr<const Place> parent = {};
  bool is_derived = false;  // kText: the schema is derived from the one at this path
};

/// Cached facts about values of the document, keyed by address.
struct SchemaReader::Memory {
  using Members = std::unordered_map<std::string_view, const ordered_json*>;

  Memory(const ordered_json& its_document, const std::string& its_name)
      : document(&its_document), name(&its_name) {}

  /// The member of an object; null if it does not exist.
  const ordered_json* member(const ordered_json& object, std::string_view key) {
    if (object.size() < kLongObject) {
      const auto found = object.find(key);
      return found == object.end() ? nullptr : &*found;
    }
    const auto [known, is_new] = members.try_emplace(&object);
    if (is_new) {
      spend_steps(object.size() * kStepsPerText);
      for (auto each = object.begin(); each != object.end(); ++each)
        known->second.emplace(each.key(), &*each);
    }
    const auto found = known->second.find(key);
    return found == known->second.end() ? nullptr : found->second;
  }

  /// Resolves one reference token of a JSON pointer: the member or item; null if it does not exist.
  const ordered_json* child(const ordered_json& value, const std::string& key) {
    if (value.is_object()) return member(value, key);
    size_t index = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), index);
    if (!value.is_array() || error != std::errc() || end != key.data() + key.size() || index >= value.size())
      return nullptr;
    return &value[index];
  }

  const ordered_json* document;
  const std::string* name;
  std::unordered_map<const ordered_json*, Members> members;
  std::unordered_map<const ordered_json*, ListedValues> values;             // by schema
  std::unordered_map<const ordered_json*, TextList> texts;                  // by list
  std::unordered_map<const ordered_json*, JsonTypes> types;                 // by list
  std::unordered_map<const ordered_json*, const ordered_json*> references;  // by pointer
  std::unordered_set<const ordered_json*> checked;                          // schemas
  std::map<std::pair<const ordered_json*, int>, SchemaOutline> outlines;    // by schema and depth
  std::map<std::pair<const ordered_json*, std::string>, std::unique_ptr<const ordered_json>>
      derived;                            // by schema and what it was derived for
  std::deque<std::string> derived_paths;  // of places
};

/// Computes outlines of schemas; cached by schema and depth.
struct SchemaOutliner {
  static const SchemaOutline& find(const SchemaReader& schema, int depth) {
    static const SchemaOutline kAnything;
    if (depth == 0 || !schema.value().is_object()) return kAnything;
    auto& outlines = schema.memory_->outlines;
    const std::pair key(&schema.value(), depth);
    if (const auto known = outlines.find(key); known != outlines.end()) return known->second;
    SchemaOutline outline;
    if (const auto types = schema.types()) outline.types &= *types;
    if (const ListedValues* values = schema.values()) {
      JsonTypes types = 0;
      for (const ordered_json* value : values->values) types |= json_type(*value);
      outline.types &= types;
      spend_copy(values->canonical);
      outline.values.emplace(values->canonical.begin(), values->canonical.end());
    }
    const TextList& required = schema.texts("required");
    for (const auto& [name, property] : schema.named_schemas("properties")) {
      if (!required.members.contains(name)) continue;
      const SchemaOutline& of_property = find(property, depth - 1);
      if (!of_property.values) continue;
      spend_copy(*of_property.values);
      outline.tags[std::string(name)] = *of_property.values;
    }
    if (const auto target = schema.reference()) narrow(outline, find(*target, depth - 1));
    for (const SchemaReader& part : schema.schemas("allOf")) narrow(outline, find(part, depth - 1));
    return outlines.emplace(key, std::move(outline)).first->second;
  }

 private:
  static void narrow(SchemaOutline& outline, const SchemaOutline& part) {
    outline.types &= part.types;
    spend_steps(kStepsPerReader);
    if (part.values) {
      spend_copy(*part.values);
      std::set<std::string> both = *part.values;
      if (outline.values)
        std::erase_if(both, [&](const std::string& text) { return !outline.values->contains(text); });
      outline.values = std::move(both);
    }
    for (const auto& [key, values] : part.tags) {
      spend_copy(values);
      outline.tags[key] = values;
    }
  }
};

JsonTypes json_type(const ordered_json& value) {
  switch (value.type()) {
    case ordered_json::value_t::null:
      return kTypeNull;
    case ordered_json::value_t::boolean:
      return kTypeBoolean;
    case ordered_json::value_t::string:
      return kTypeString;
    case ordered_json::value_t::array:
      return kTypeArray;
    case ordered_json::value_t::object:
      return kTypeObject;
    case ordered_json::value_t::number_float:
      return value.get<double>() == std::trunc(value.get<double>()) ? kTypeInteger : kTypeFraction;
    default:
      return kTypeInteger;
  }
}

std::string canonical_json(const ordered_json& value) {
  const nlohmann::json sorted = value;
  std::string text = json_text(ordered_json(sorted), JsonLayout::kCompact);
  spend_steps(text.size() * kStepsPerByte);
  return text;
}

SchemaReader::SchemaReader(const ordered_json& document, const std::string& name)
    : memory_(std::make_shared<Memory>(document, name)),
      value_(&document),
      place_(std::make_shared<const Place>(Place{.keyword = "#"})) {}

SchemaReader SchemaReader::at(const ordered_json& value, Place place) const {
  return {memory_, value, std::make_shared<const Place>(std::move(place))};
}

std::string SchemaReader::path() const {
  std::vector<const Place*> places;
  for (const Place* place = place_.get(); place != nullptr; place = place->parent.get()) {
    places.push_back(place);
    if (place->kind == Place::Kind::kText) break;
  }
  std::string path;
  const bool is_derived = places.back()->is_derived;
  for (auto place = places.rbegin(); place != places.rend(); ++place) {
    const Place& each = **place;
    if (is_derived && each.kind != Place::Kind::kText) {
      // Parts that negation() added are not in the user's schema, except "properties".
      if (each.keyword == "anyOf" || each.keyword == "not") continue;
      if (each.keyword != "properties") break;
    }
    path += each.kind == Place::Kind::kText ? std::string(each.keyword) : "/" + escaped(each.keyword);
    if (each.kind == Place::Kind::kMember) path += "/" + escaped(each.key);
    if (each.kind == Place::Kind::kItem) path += fmt::format("/{}", each.index);
  }
  spend_steps(path.size());
  return path;
}

std::string SchemaReader::path_of(std::string_view keyword) const {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kOwn{{{kNotListed, "enum"},
                                                                               {kNotPattern, "pattern"},
                                                                               {kNotMultipleOf, "multipleOf"},
                                                                               {kNotReference, "$ref"}}};
  for (const auto& [own, users] : kOwn) {
    if (keyword == own) return path() + "/" + std::string(users);
  }
  return path() + "/" + escaped(keyword);
}

const ordered_json* SchemaReader::find(std::string_view keyword) const {
  const ordered_json* value = value_->is_object() ? memory_->member(*value_, keyword) : nullptr;
  return value != nullptr && value->is_null() && keyword != "const" ? nullptr : value;
}

void SchemaReader::refuse(std::string_view keyword, std::string_view expected) const {
  const ordered_json* value = find(keyword);
  throw InputError("{}: {} is {}; expected {}", *memory_->name, in_quotes(path_of(keyword)),
                   value ? shown(*value) : "missing", expected);
}

void SchemaReader::refuse_unsupported(std::string_view keyword, std::string_view instead) const {
  throw UnsupportedSchema("{}: {} is not supported{}{}", *memory_->name, in_quotes(path_of(keyword)),
                          instead.empty() ? "" : "; ", instead);
}

void SchemaReader::check() const {
  if (memory_->checked.contains(value_)) return;
  if (!value_->is_object() && !value_->is_boolean())
    throw InputError("{}: {} is {}; expected an object, true or false", *memory_->name, in_quotes(path()),
                     shown(*value_));
  constexpr std::array<std::string_view, 3> kUnsupported{"$dynamicRef", "$recursiveRef", "extends"};
  for (const std::string_view keyword : kUnsupported) {
    if (has(keyword)) refuse_unsupported(keyword);
  }
  memory_->checked.insert(value_);
}

std::optional<int64_t> SchemaReader::count(std::string_view keyword) const {
  constexpr double kLargest = 2147483648.0;
  const ordered_json* value = number(keyword);
  if (!value) return std::nullopt;
  const double number = value->get<double>();
  if (number < 0 || number != std::trunc(number)) refuse(keyword, "an integer of at least 0");
  return static_cast<int64_t>(std::min(number, kLargest));
}

std::optional<std::string> SchemaReader::text(std::string_view keyword) const {
  const ordered_json* value = find(keyword);
  if (!value) return std::nullopt;
  if (!value->is_string()) refuse(keyword, "text");
  return value->get<std::string>();
}

const TextList& SchemaReader::texts(std::string_view keyword) const {
  static const TextList kNone;
  const ordered_json* value = find(keyword);
  if (!value) return kNone;
  if (value->is_boolean() && keyword == "required") return kNone;  // draft 3: a flag of a property
  if (!value->is_array()) refuse(keyword, "a list of texts");
  if (const auto known = memory_->texts.find(value); known != memory_->texts.end()) return known->second;
  spend_steps(value->size() * kStepsPerText);
  TextList list;
  for (const ordered_json& item : *value) {
    if (!item.is_string()) refuse(keyword, "a list of texts");
    list.texts.emplace_back(item.get_ref<const std::string&>());
  }
  list.members.insert(list.texts.begin(), list.texts.end());
  return memory_->texts.emplace(value, std::move(list)).first->second;
}

std::optional<SchemaReader> SchemaReader::schema(std::string_view keyword) const {
  const ordered_json* value = find(keyword);
  if (!value) return std::nullopt;
  return at(*value, {.kind = Place::Kind::kKeyword, .keyword = keyword, .parent = place_});
}

std::vector<SchemaReader> SchemaReader::schemas(std::string_view keyword) const {
  const ordered_json* value = find(keyword);
  if (!value) return {};
  if (!value->is_array()) refuse(keyword, "a list of schemas");
  spend_steps(value->size() * kStepsPerReader);
  spend_bytes(value->size() * (sizeof(SchemaReader) + sizeof(Place)));
  std::vector<SchemaReader> schemas;
  schemas.reserve(value->size());
  for (size_t i = 0; i < value->size(); ++i) {
    schemas.push_back(
        at((*value)[i], {.kind = Place::Kind::kItem, .keyword = keyword, .index = i, .parent = place_}));
  }
  return schemas;
}

std::vector<std::pair<std::string_view, SchemaReader>> SchemaReader::named_schemas(
    std::string_view keyword) const {
  const ordered_json* value = find(keyword);
  if (!value) return {};
  if (!value->is_object()) refuse(keyword, "an object of schemas");
  spend_steps(value->size() * kStepsPerReader);
  spend_bytes(value->size() * (sizeof(SchemaReader) + sizeof(Place)));
  std::vector<std::pair<std::string_view, SchemaReader>> schemas;
  schemas.reserve(value->size());
  for (auto member = value->begin(); member != value->end(); ++member) {
    const std::string_view key = member.key();
    schemas.emplace_back(
        key, at(*member, {.kind = Place::Kind::kMember, .keyword = keyword, .key = key, .parent = place_}));
  }
  return schemas;
}

std::optional<SchemaReader> SchemaReader::named_schema(std::string_view keyword, std::string_view key) const {
  const ordered_json* named = find(keyword);
  if (!named || !named->is_object()) return std::nullopt;
  const ordered_json* value = memory_->member(*named, key);
  if (!value) return std::nullopt;
  return at(*value, {.kind = Place::Kind::kMember, .keyword = keyword, .key = key, .parent = place_});
}

bool SchemaReader::is_true(std::string_view keyword) const {
  const ordered_json* value = find(keyword);
  if (!value) return false;
  if (!value->is_boolean()) refuse(keyword, "true or false");
  return value->get<bool>();
}

const ordered_json* SchemaReader::number(std::string_view keyword) const {
  const ordered_json* value = find(keyword);
  if (value && !value->is_number()) refuse(keyword, "a number");
  return value;
}

std::optional<JsonTypes> SchemaReader::types() const {
  constexpr std::array<std::pair<std::string_view, JsonTypes>, 8> kNames{{{"null", kTypeNull},
                                                                          {"boolean", kTypeBoolean},
                                                                          {"integer", kTypeInteger},
                                                                          {"number", kTypeNumber},
                                                                          {"string", kTypeString},
                                                                          {"array", kTypeArray},
                                                                          {"object", kTypeObject},
                                                                          {kFractionType, kTypeFraction}}};
  const ordered_json* value = find("type");
  if (!value) return std::nullopt;
  if (const auto known = memory_->types.find(value); known != memory_->types.end()) return known->second;
  JsonTypes types = 0;
  const auto add = [&](const ordered_json& name) {
    const std::string text = name.is_string() ? lower_case(name.get_ref<const std::string&>()) : "";
    const auto* known = std::ranges::find_if(kNames, [&](const auto& entry) { return entry.first == text; });
    if (known == kNames.end())
      refuse("type", "null, boolean, integer, number, string, array, object, or a list of them");
    types |= known->second;
  };
  if (value->is_array()) {
    spend_steps(value->size() * kStepsPerLookUp);
    for (const ordered_json& name : *value) add(name);
    if (is_true("nullable")) types |= kTypeNull;
    memory_->types.emplace(value, types);
  } else {
    add(*value);
    if (is_true("nullable")) types |= kTypeNull;
  }
  return types;
}

JsonTypes SchemaReader::described_types() const {
  JsonTypes types = 0;
  for (const SchemaKeyword& keyword : kSchemaKeywords) {
    if (keyword.types != 0 && has(keyword.name)) types |= keyword.types;
  }
  return types;
}

const ListedValues* SchemaReader::values() const {
  const ordered_json* list = find("enum");
  const ordered_json* constant = find("const");
  if (!list && !constant) return nullptr;
  if (const auto known = memory_->values.find(value_); known != memory_->values.end()) return &known->second;
  ListedValues listed;
  const auto add = [&](const ordered_json& value) {
    spend_bytes(sizeof(std::string) + sizeof(&value));
    listed.values.push_back(&value);
    listed.canonical.push_back(canonical_json(value));
  };
  if (list) {
    if (!list->is_array()) refuse("enum", "a list of values");
    if (!is_exact(*list)) refuse("enum", "numbers that 64 bits hold exactly");
    for (const ordered_json& value : *list) add(value);
  }
  if (constant) {
    if (!is_exact(*constant)) refuse("const", "numbers that 64 bits hold exactly");
    const std::vector<std::string> others = std::exchange(listed, {}).canonical;
    add(*constant);
    if (list && std::ranges::find(others, listed.canonical.front()) == others.end()) listed = {};
  }
  return &memory_->values.emplace(value_, std::move(listed)).first->second;
}

std::optional<SchemaReader> SchemaReader::reference(std::string_view keyword) const {
  const ordered_json* pointer = find(keyword);
  if (!pointer) return std::nullopt;
  if (!pointer->is_string()) refuse(keyword, "text");
  const std::string_view target = pointer->get_ref<const std::string&>();
  const ordered_json*& found = memory_->references[pointer];
  if (found == nullptr) {
    spend_steps(target.size() * kStepsPerByte);
    found = resolve(keyword, target);
  }
  return at(*found, {.keyword = target, .parent = keyword == kNotReference ? nullptr : place_});
}

SchemaReader SchemaReader::apart(const ordered_json& value) const {
  const std::string& text = memory_->derived_paths.emplace_back(path());
  spend_steps(kStepsPerReader);
  spend_bytes(text.size() + sizeof(std::string) + sizeof(Place));
  return at(value, {.keyword = text, .is_derived = true});
}

const ordered_json* SchemaReader::find_derived(const std::string& key) const {
  const auto known = memory_->derived.find({value_, key});
  return known == memory_->derived.end() ? nullptr : known->second.get();
}

const ordered_json& SchemaReader::keep_derived(const std::string& key, ordered_json made) const {
  auto& kept = memory_->derived[{value_, key}];
  kept = std::make_unique<const ordered_json>(std::move(made));
  return *kept;
}

SchemaReader SchemaReader::at_this_place(const ordered_json& value) const {
  return {memory_, value, place_};
}

bool SchemaReader::is_within(const SchemaReader& other) const {
  spend_steps(kStepsPerLookUp);
  for (const Place* place = place_.get(); place != nullptr; place = place->parent.get()) {
    if (place == other.place_.get()) return true;
  }
  return false;
}

const ordered_json* SchemaReader::resolve(std::string_view keyword, std::string_view target) const {
  if (!target.starts_with("#")) refuse_unsupported(keyword, "only places in the same document are read");
  if (target.size() > 1 && target[1] != '/')
    refuse(keyword, "a JSON pointer, or an \"$anchor\" of the document");
  const ordered_json* value = memory_->document;
  std::string_view rest = target.substr(1);
  while (!rest.empty()) {
    rest.remove_prefix(1);  // "/"
    const size_t end = std::min(rest.find('/'), rest.size());
    value = memory_->child(*value, unescaped(rest.substr(0, end)));
    if (!value) refuse(keyword, "the place of a schema in the same document");
    rest.remove_prefix(end);
  }
  return value;
}

SchemaOutline outline(const SchemaReader& schema) {
  return SchemaOutliner::find(schema, kOutlineDepth);
}

bool are_disjoint(const SchemaOutline& a, const SchemaOutline& b) {
  spend_steps(kStepsPerLookUp);
  const JsonTypes common = a.types & b.types;
  if (common == 0) return true;
  if (a.values && b.values && !have_common(*a.values, *b.values)) return true;
  if (common != kTypeObject) return false;
  spend_steps(a.tags.size() * kStepsPerLookUp);
  return std::ranges::any_of(a.tags, [&](const auto& tag) {
    const auto other = b.tags.find(tag.first);
    return other != b.tags.end() && !have_common(tag.second, other->second);
  });
}

}  // namespace lacuna
