# cmake -DFOLDER=src/server/page -DOUTPUT=page_files.cpp -P embed.cmake
#
# Writes page_files() of server/page/page.h: the page's texts, as raw string literals.
set(type_html "text/html; charset=utf-8")
set(type_css "text/css; charset=utf-8")
set(type_js "text/javascript; charset=utf-8")

file(GLOB files ${FOLDER}/*.html ${FOLDER}/*.css ${FOLDER}/*.js)
set(entries "")
foreach(file IN LISTS files)
  file(READ ${file} text)
  get_filename_component(name ${file} NAME)
  get_filename_component(extension ${file} LAST_EXT)
  string(SUBSTRING ${extension} 1 -1 extension)
  set(path "/${name}")
  if(name STREQUAL "index.html")
    set(path "/")
  elseif(extension STREQUAL "html")
    string(REGEX REPLACE "\\.html$" "" path "${path}")
  endif()
  string(APPEND entries "      {\"${path}\", {\"${type_${extension}}\", R\"EMBEDDED(${text})EMBEDDED\"}},\n")
endforeach()
file(WRITE ${OUTPUT} "// From the files of src/server/page/.
#include \"server/page/page.h\"

namespace lacuna {

StaticFiles page_files() {
  return {
${entries}  };
}

}  // namespace lacuna
")
