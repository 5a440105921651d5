#include "base/system.h"

#include <fcntl.h>
#include <unistd.h>

#ifdef __APPLE__
#include <mach-o/dyld.h>
#elif defined(__FreeBSD__)
#include <sys/sysctl.h>
#else
#include <sys/syscall.h>
#endif

#include <string>
#include <system_error>

namespace lacuna {

std::filesystem::path running_program() {
  std::error_code error;
#if defined(__APPLE__)
  uint32_t size = 0;
  _NSGetExecutablePath(nullptr, &size);  // only returns the path's length
  std::string path(size, '\0');
  if (_NSGetExecutablePath(path.data(), &size) != 0) return {};
  return std::filesystem::canonical(path.c_str(), error);
#elif defined(__FreeBSD__)
  std::array<int, 4> question = {CTL_KERN, KERN_PROC, KERN_PROC_PATHNAME, /*this process*/ -1};
  size_t size = 0;
  if (::sysctl(question.data(), question.size(), nullptr, &size, nullptr, 0) != 0) return {};
  std::string path(size, '\0');
  if (::sysctl(question.data(), question.size(), path.data(), &size, nullptr, 0) != 0) return {};
  return path.c_str();
#else
  return std::filesystem::read_symlink("/proc/self/exe", error);
#endif
}

bool open_pipe(std::array<int, 2>& ends) {
#ifdef __APPLE__
  if (::pipe(ends.data()) != 0) return false;
  for (const int end : ends) ::fcntl(end, F_SETFD, FD_CLOEXEC);
  return true;
#else
  return ::pipe2(ends.data(), O_CLOEXEC) == 0;
#endif
}

void close_files_from(int first) {
#if defined(__linux__)
  ::syscall(SYS_close_range, first, ~0U, 0U);  // musl has no wrapper
#elif defined(__FreeBSD__)
  ::closefrom(first);
#else
  for (int file = ::getdtablesize() - 1; file >= first; --file) ::close(file);
#endif
}

}  // namespace lacuna
