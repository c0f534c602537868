"""Outlines of the characters that the figures use, from DejaVu Sans and DejaVu Sans Bold.

Run: python glyphs.py DejaVuSans.ttf DejaVuSans-Bold.ttf > glyphs.txt   (fontTools 4.68, DejaVu 2.37)

Each line: style (r or b), character code, advance, SVG path, in units of 1/2048 of the font size, y upwards. The figures draw text as these
outlines, so that they look the same everywhere and need no font. DejaVu's licence is in glyphs-LICENSE.txt.
"""
import sys
from fontTools.pens.svgPathPen import SVGPathPen
from fontTools.ttLib import TTFont

BLOCKS = [range(32, 127), range(0xA0, 0x100), range(0x391, 0x3A2), range(0x3A3, 0x3CA)]  # ASCII, Latin-1, Greek
CHARACTERS = [chr(c) for block in BLOCKS for c in block]
CHARACTERS += list("−–—‘’“”…⁰⁴⁵⁶⁷⁸⁹⁻₀₁₂₃₄₅₆₇₈₉ℓ∂≥≤≈∞′→←↑↓√∑□")
for style, path in zip("rb", sys.argv[1:]):
    font = TTFont(path)
    glyphs, names = font.getGlyphSet(), font.getBestCmap()
    for character in CHARACTERS:
        glyph = glyphs[names[ord(character)]]
        pen = SVGPathPen(glyphs, ntos=lambda v: str(round(v)))
        glyph.draw(pen)
        print(style, ord(character), round(glyph.width), pen.getCommands(), sep="\t")
