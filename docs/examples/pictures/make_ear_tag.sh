#!/bin/sh
# Draws ear_tag.jpg: a cattle ear tag as a phone would photograph it in a barn (perspective, uneven light, blur, noise).
# Needs ImageMagick 6 and the DejaVu fonts. The seed is fixed, so that the same version draws the same picture.
# Picture, text and script: CC0.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/ear_tag.jpg}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
font=/usr/share/fonts/truetype/dejavu/DejaVuSans-Bold.ttf

# The hide behind it: stretched noise for hair, warm brown, darker towards one corner.
convert -size 320x960 -seed 7 xc:gray50 +noise Gaussian -colorspace Gray -blur 0x1 -resize '1280x960!' \
  -motion-blur 0x14+70 -normalize +level 22%,62% -fill '#6b4423' -tint 130 \
  \( -size 1280x960 radial-gradient:white-gray35 \) -compose Multiply -composite "$work/hide.png"

# The tag: yellow plastic with a neck, a button, and four lines.
convert -size 820x860 xc:none -fill '#f2c414' -stroke '#b58f08' -strokewidth 4 \
  -draw 'roundrectangle 310,10 510,260 70,70' -draw 'roundrectangle 30,170 790,840 90,90' \
  -stroke none -fill '#f2c414' -draw 'rectangle 315,172 505,262' \
  -fill '#e0b20e' -stroke '#9a7a06' -strokewidth 5 -draw 'circle 410,95 410,150' \
  -fill '#5b4a12' -stroke none -draw 'circle 410,95 410,113' \
  -font "$font" -fill '#1b1712' -gravity North \
  -pointsize 58 -annotate +0+232 'HILL FARM' \
  -pointsize 158 -annotate +0+312 '0417' \
  -pointsize 62 -annotate +0+535 'UK 302145' \
  -pointsize 54 -annotate +0+660 'BORN 14 MAR' "$work/flat.png"

# Light from the upper left falls off across the plastic.
convert "$work/flat.png" \( -size 820x860 -define gradient:angle=130 gradient:'#ffffff-#8a8478' \) \
  -compose Multiply -composite "$work/flat.png" -compose DstIn -composite "$work/tag.png"

# Held at an angle, with a soft shadow, then the camera's own faults.
convert "$work/tag.png" -virtual-pixel transparent -background none \
  -distort Perspective '0,0 70,58  820,0 812,18  820,860 846,812  0,860 20,880' "$work/turned.png"
convert "$work/hide.png" \
  \( "$work/turned.png" -background black -shadow 70x14+0+0 \) -geometry +222+62 -compose Over -composite \
  "$work/turned.png" -geometry +215+35 -compose Over -composite \
  -blur 0x0.9 -seed 11 -attenuate 0.22 +noise Gaussian -modulate 96,92 \
  -sampling-factor 2x2 -quality 84 -strip "$out"
