#include "text/chars.h"
#include <utf8proc.h>

bool spar_char_is_space(int32_t c)
{
	if ((c >= '\t' && c <= '\r') || c == 0x85)
		return true;
	utf8proc_category_t category = utf8proc_category(c);
	return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
}

bool spar_char_is_word(int32_t c)
{
	switch (utf8proc_category(c)) {
	case UTF8PROC_CATEGORY_LU:
	case UTF8PROC_CATEGORY_LL:
	case UTF8PROC_CATEGORY_LT:
	case UTF8PROC_CATEGORY_LM:
	case UTF8PROC_CATEGORY_LO:
	case UTF8PROC_CATEGORY_MN:
	case UTF8PROC_CATEGORY_MC:
	case UTF8PROC_CATEGORY_ME:
	case UTF8PROC_CATEGORY_ND:
	case UTF8PROC_CATEGORY_NL:
	case UTF8PROC_CATEGORY_PC:
		return true;
	default: /* the joiners, and symbols that are letters in a circle or a square */
		return c == 0x200C || c == 0x200D || (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
		       (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
	}
}

size_t spar_char_at(const char *text, size_t n, size_t at, int32_t *c)
{
	utf8proc_ssize_t len = utf8proc_iterate((const utf8proc_uint8_t *)text + at, (utf8proc_ssize_t)(n - at), c);
	return len > 0 ? (size_t)len : 1;
}

size_t spar_char_before(const char *text, size_t at, int32_t *c)
{
	size_t begin = at - 1;
	while (begin && at - begin < 4 && ((uint8_t)text[begin] & 0xC0) == 0x80)
		begin--;
	spar_char_at(text, at, begin, c);
	return begin;
}
