#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts style and scripts into page.html and embeds the result.

usage: embed.py OUT.S OUT-HEAD OUT-TAIL PAGE.html STYLE.css SCRIPT.js...

Writes the document up to and from the place of the plain tables, and an assembler file that
embeds both (.incbin) together with the Content-Security-Policy, which allows exactly this style
and this script by their hashes. Same input, same bytes.
"""

import base64
import gzip
import hashlib
import sys

GZIP_MAX = 40 << 10  # bytes of the whole document, without what is true now
PLAIN = "<!--PLAIN-->"

ASSEMBLER = """\
/* Made by embed.py from a document with the hash {digest}: another one makes another file. */
	.section .rodata
	.global page_head, page_head_end, page_tail, page_tail_end, page_policy_text
	.hidden page_head, page_head_end, page_tail, page_tail_end, page_policy_text
page_head:
	.incbin "{head}"
page_head_end:
page_tail:
	.incbin "{tail}"
page_tail_end:
page_policy_text:
	.asciz "{policy}"
	.section .note.GNU-stack,"",%progbits
"""


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def hash_source(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def put(document, mark, text):
    if document.count(mark) != 1:
        sys.exit(f"embed.py: the page has {document.count(mark)} places for {mark}, not one")
    return document.replace(mark, text)


def main():
    out, out_head, out_tail, page, style_path, *script_paths = sys.argv[1:]
    style = read(style_path)
    script = '"use strict";\n' + "".join(map(read, script_paths))
    if "</" in style or "</script" in script.lower() or "<!--" in script:
        sys.exit("embed.py: style or script would end its own element")
    document = put(put(read(page), "/*STYLE*/", style), "/*SCRIPT*/", script)
    if document.count(PLAIN) != 1:
        sys.exit(f"embed.py: the page has not one place for {PLAIN}")
    size = len(gzip.compress(document.encode(), 9, mtime=0))
    if size > GZIP_MAX:
        sys.exit(f"embed.py: the page has {size} bytes compressed, at most {GZIP_MAX} are wanted")
    policy = ("default-src 'none'; "
              f"script-src {hash_source(script)}; style-src {hash_source(style)}; "
              "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
              "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'")
    head, tail = document.split(PLAIN)
    for path, text in ((out_head, head), (out_tail, tail)):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    with open(out, "w", encoding="utf-8") as file:
        file.write(ASSEMBLER.format(digest=hashlib.sha256(document.encode()).hexdigest(),
                                    head=out_head, tail=out_tail, policy=policy))


if __name__ == "__main__":
    main()
