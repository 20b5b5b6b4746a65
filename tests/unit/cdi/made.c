/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/cdi/made.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "cdi/soname.h"

void made_library(struct made_library *out, const char *soname)
{
	memset(out, 0, sizeof(*out));
	memcpy(out->header.e_ident, ELFMAG, SELFMAG);
	out->header.e_ident[EI_CLASS] = ELFCLASS64;
	out->header.e_ident[EI_DATA] =
	    __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;
	out->header.e_ident[EI_VERSION] = EV_CURRENT;
	out->header.e_type = ET_DYN;
	out->header.e_machine = (Elf64_Half)soname_machine_here();
	out->header.e_phoff = offsetof(struct made_library, segments);
	out->header.e_phnum = 2;
	out->header.e_phentsize = sizeof(out->segments[0]);
	out->segments[0] = (Elf64_Phdr){.p_type = PT_LOAD,
					.p_vaddr = 0x10000,
					.p_filesz = sizeof(*out),
					.p_memsz = sizeof(*out)};
	out->segments[1] = (Elf64_Phdr){.p_type = PT_DYNAMIC,
					.p_offset = offsetof(struct made_library, dynamic),
					.p_filesz = sizeof(out->dynamic)};
	out->dynamic[0] = (Elf64_Dyn){.d_tag = DT_SONAME, .d_un.d_val = 1};
	out->dynamic[1] = (Elf64_Dyn){.d_tag = DT_STRTAB,
				      .d_un.d_ptr = 0x10000 + offsetof(struct made_library, text)};
	(void)snprintf(out->text + 1, sizeof(out->text) - 1, "%s", soname);
}
