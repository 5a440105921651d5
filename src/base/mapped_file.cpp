#include "base/mapped_file.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/open_file.h"
#include "base/system.h"

namespace lacuna {
namespace {

/// Node of a list that the SIGBUS handler reads. The list only grows; free nodes are reused.
struct Registered {
  std::atomic<const std::byte*> begin{nullptr};  // null: free
  std::atomic<size_t> size{0};
  char name[512] = {};  // the last part of a longer path
  std::string path;     // not read by the handler
  int descriptor = -1;  // the mapped file, even if its name later leads to another one
  struct stat status = {};
  Registered* next = nullptr;  // set before the node is published
};
std::atomic<Registered*> registered{nullptr};
std::mutex registered_mutex;  // excludes writers and readers other than the signal handler

Registered& free_node() {
  for (Registered* node = registered; node != nullptr; node = node->next) {
    if (node->begin == nullptr) return *node;
  }
  auto* const node = new Registered;  // never freed: the handler may be reading the list
  node->next = registered;
  registered = node;
  return *node;
}

void enlist(const std::filesystem::path& path, std::span<const std::byte> bytes, FileDescriptor&& file,
            const struct stat& status) {
  const std::string name = std::filesystem::absolute(path).string();
  const std::lock_guard lock(registered_mutex);
  Registered& node = free_node();
  const std::string_view shown =
      std::string_view(name).substr(name.size() - std::min(name.size(), sizeof(node.name) - 1));
  std::memcpy(node.name, shown.data(), shown.size());
  node.name[shown.size()] = '\0';
  node.path = name;
  node.descriptor = file.release();
  node.status = status;
  node.size = bytes.size();
  node.begin = bytes.data();
}

void strike(const std::byte* begin) {
  const std::lock_guard lock(registered_mutex);
  for (Registered* node = registered; node != nullptr; node = node->next) {
    if (node->begin != begin) continue;
    node->begin = nullptr;
    ::close(std::exchange(node->descriptor, -1));
  }
}

bool is_same_time(const timespec& a, const timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

/// Whether the content may differ from what was mapped. ctime also reveals a write after which mtime was set
/// back. But a rename, a new link or a new mode changes ctime too, so it only counts if the path, links and
/// mode are the same.
bool has_changed(const Registered& node) {
  const struct stat& then = node.status;
  struct stat now = {};
  if (::fstat(node.descriptor, &now) != 0) return true;
  if (now.st_size != then.st_size || !is_same_time(modification_time(now), modification_time(then)))
    return true;
  if (is_same_time(change_time(now), change_time(then))) return false;
  struct stat named = {};
  const bool keeps_name =
      ::stat(node.path.c_str(), &named) == 0 && named.st_dev == then.st_dev && named.st_ino == then.st_ino;
  return keeps_name && now.st_nlink == then.st_nlink && now.st_mode == then.st_mode &&
         now.st_uid == then.st_uid && now.st_gid == then.st_gid;
}

void write_error(const char* text) {
  if (::write(STDERR_FILENO, text, std::strlen(text)) < 0) return;  // standard error is gone
}

/// Calls only async-signal-safe functions.
extern "C" void handle_bus_error(int signal, siginfo_t* information, void* /*context*/) {
  const auto* const address = static_cast<const std::byte*>(information->si_addr);
  for (const Registered* node = registered; node != nullptr; node = node->next) {
    const std::byte* const begin = node->begin;
    if (begin == nullptr || address < begin || address >= begin + node->size) continue;
    write_error("lacuna: ");
    write_error(node->name);
    struct stat now = {};
    const bool is_whole = ::fstat(node->descriptor, &now) == 0 && now.st_size == node->status.st_size;
    write_error(is_whole ? ": cannot be read from its disk\n"
                         : ": was shortened while it was in use; start again\n");
    _exit(1);
  }
  struct sigaction by_default = {};
  by_default.sa_handler = SIG_DFL;
  ::sigaction(signal, &by_default, nullptr);
  ::raise(signal);
}

InputError failure(const std::filesystem::path& path) {
  return InputError("{}: cannot be read: {}", path.string(), std::generic_category().message(errno));
}

}  // namespace

MappedFile MappedFile::open(const std::filesystem::path& path) {
  FileDescriptor file = open_to_read(path);
  struct stat status = {};
  if (::fstat(file.number(), &status) != 0) throw failure(path);
  if (status.st_size == 0) throw InputError("{}: is empty", path.string());
  const auto size = static_cast<size_t>(status.st_size);
  void* const address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.number(), 0);
  if (address == MAP_FAILED) throw failure(path);
#ifdef MADV_HUGEPAGE
  // Fewer page faults and table walks, if the file system supports huge pages. Only a hint.
  ::madvise(address, size, MADV_HUGEPAGE);
#endif
  const std::span<const std::byte> bytes{static_cast<const std::byte*>(address), size};
  enlist(path, bytes, std::move(file), status);
  return MappedFile(bytes);
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

void MappedFile::release_pages() const {
  // Only a hint: if it is refused, the pages stay until their memory is needed.
  ::madvise(const_cast<std::byte*>(bytes_.data()), bytes_.size(), MADV_DONTNEED);
}

MappedFile::~MappedFile() {
  if (bytes_.empty()) return;
  strike(bytes_.data());
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

std::optional<std::string> find_changed_mapped_file() {
  const std::lock_guard lock(registered_mutex);
  for (const Registered* node = registered; node != nullptr; node = node->next) {
    if (node->begin != nullptr && has_changed(*node)) return node->path;
  }
  return {};
}

void report_shortened_mapped_files() {
  struct sigaction action = {};
  action.sa_sigaction = handle_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace lacuna
