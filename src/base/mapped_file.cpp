#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace lacuna {
namespace {

class FileDescriptor {
 public:
  explicit FileDescriptor(int number) : number_(number) {}
  ~FileDescriptor() {
    if (number_ >= 0) ::close(number_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;

  int number() const { return number_; }

 private:
  int number_;
};

/// A mapped file, as the handler of SIGBUS can read it: plain memory that is never freed.
struct Registered {
  std::atomic<const std::byte*> begin{nullptr};  // null: free
  std::atomic<size_t> size{0};
  char name[512] = {};
  struct stat status = {};
};
constexpr size_t kMostRegistered = 1024;
Registered registered[kMostRegistered];
std::mutex registered_mutex;  // of writers, and of readers other than the handler

void enlist(const std::filesystem::path& path, std::span<const std::byte> bytes, const struct stat& status) {
  const std::string name = std::filesystem::absolute(path).string();
  if (name.size() >= sizeof(Registered::name)) return;
  const std::lock_guard lock(registered_mutex);
  for (Registered& entry : registered) {
    if (entry.begin != nullptr) continue;
    std::memcpy(entry.name, name.c_str(), name.size() + 1);
    entry.status = status;
    entry.size = bytes.size();
    entry.begin = bytes.data();
    return;
  }
}

void strike(const std::byte* begin) {
  const std::lock_guard lock(registered_mutex);
  for (Registered& entry : registered) {
    if (entry.begin == begin) entry.begin = nullptr;
  }
}

void write_error(const char* text) {
  if (::write(STDERR_FILENO, text, std::strlen(text)) < 0) return;  // nobody is left to tell
}

/// Calls only what a handler of signals may.
extern "C" void handle_bus_error(int signal, siginfo_t* information, void* /*context*/) {
  const auto* const address = static_cast<const std::byte*>(information->si_addr);
  for (const Registered& entry : registered) {
    const std::byte* const begin = entry.begin;
    if (begin == nullptr || address < begin || address >= begin + entry.size) continue;
    write_error("lacuna: ");
    write_error(entry.name);
    write_error(": was shortened while it was in use; start again\n");
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
  // Without O_NONBLOCK, opening a named pipe would wait for a writer.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status = {};
  if (file.number() < 0 || ::fstat(file.number(), &status) != 0) throw failure(path);
  if (!S_ISREG(status.st_mode)) throw InputError("{}: is not a regular file", path.string());
  if (status.st_size == 0) throw InputError("{}: is empty", path.string());
  const auto size = static_cast<size_t>(status.st_size);
  void* const address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.number(), 0);
  if (address == MAP_FAILED) throw failure(path);
#ifdef MADV_HUGEPAGE
  // Fewer faults and look-ups in the page tables, where the file's system has such pages. Only a hint.
  ::madvise(address, size, MADV_HUGEPAGE);
#endif
  const std::span<const std::byte> bytes{static_cast<const std::byte*>(address), size};
  enlist(path, bytes, status);
  return MappedFile(bytes);
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

void MappedFile::release_pages() const {
  // Only a hint: where it is refused, the pages stay until something else needs their memory.
  ::madvise(const_cast<std::byte*>(bytes_.data()), bytes_.size(), MADV_DONTNEED);
}

MappedFile::~MappedFile() {
  if (bytes_.empty()) return;
  strike(bytes_.data());
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

std::optional<std::string> find_changed_mapped_file() {
  const std::lock_guard lock(registered_mutex);
  for (const Registered& entry : registered) {
    struct stat now = {};
    if (entry.begin == nullptr || ::stat(entry.name, &now) != 0) continue;
    const struct stat& then = entry.status;
    const bool is_same_file = now.st_dev == then.st_dev && now.st_ino == then.st_ino;
    const bool has_changed = now.st_size != then.st_size || now.st_mtim.tv_sec != then.st_mtim.tv_sec ||
                             now.st_mtim.tv_nsec != then.st_mtim.tv_nsec;
    if (is_same_file && has_changed) return std::string(entry.name);
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
