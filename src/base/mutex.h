// A mutex whose use clang checks at compile time (-Wthread-safety): members declare their mutex, and access
// without it is an error. Other compilers see a plain mutex.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#ifdef __clang__
#define LACUNA_THREAD_ATTRIBUTE(attribute) __attribute__((attribute))
#else
#define LACUNA_THREAD_ATTRIBUTE(attribute)
#endif

/// A member that is read and written only while `mutex` is held.
#define LACUNA_GUARDED_BY(mutex) LACUNA_THREAD_ATTRIBUTE(guarded_by(mutex))
/// A function that is called only while `mutex` is held.
#define LACUNA_REQUIRES(mutex) LACUNA_THREAD_ATTRIBUTE(requires_capability(mutex))

namespace lacuna {

class LACUNA_THREAD_ATTRIBUTE(capability("mutex")) Mutex {
 public:
  void lock() LACUNA_THREAD_ATTRIBUTE(acquire_capability()) { mutex_.lock(); }
  void unlock() LACUNA_THREAD_ATTRIBUTE(release_capability()) { mutex_.unlock(); }

 private:
  friend class Condition;
  std::mutex mutex_;
};

/// std::lock_guard for Mutex.
class LACUNA_THREAD_ATTRIBUTE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) LACUNA_THREAD_ATTRIBUTE(acquire_capability(mutex)) : mutex_(mutex) {
    mutex_.lock();
  }
  ~MutexLock() LACUNA_THREAD_ATTRIBUTE(release_capability()) { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

/// Condition variable for the state that a mutex guards. Wake-ups may be spurious: callers check their
/// condition in a loop.
class Condition {
 public:
  void notify_one() { changed_.notify_one(); }
  void notify_all() { changed_.notify_all(); }

  /// Waits for a notification and releases the mutex meanwhile.
  void wait(Mutex& mutex) LACUNA_REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    changed_.wait(lock);
    lock.release();
  }
  /// wait(), until `time` at the latest.
  template <typename Clock, typename Duration>
  void wait_until(Mutex& mutex, const std::chrono::time_point<Clock, Duration>& time) LACUNA_REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    changed_.wait_until(lock, time);
    lock.release();
  }
  /// wait(), for `time` at most.
  template <typename Rep, typename Period>
  void wait_for(Mutex& mutex, const std::chrono::duration<Rep, Period>& time) LACUNA_REQUIRES(mutex) {
    wait_until(mutex, std::chrono::steady_clock::now() + time);
  }

 private:
  std::condition_variable changed_;
};

}  // namespace lacuna
