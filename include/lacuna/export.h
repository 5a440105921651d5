/* LACUNA_API marks the exported symbols of the shared library. Users of the static library define
   LACUNA_STATIC (CMake's target and pkg-config do so). */
#ifndef LACUNA_EXPORT_H
#define LACUNA_EXPORT_H

#if defined(LACUNA_STATIC)
#define LACUNA_API
#else
#define LACUNA_API __attribute__((visibility("default")))
#endif

#endif
