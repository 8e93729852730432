//! Integers beyond 64 bits, kept as little-endian two's complement, the form pickle writes them in.

/// Longest decimal text that is converted; Python refuses longer ones too, because conversion is quadratic.
const MAX_DIGITS: usize = 4300;

/// An integer read from text: small ones as `i64`, others as little-endian two's complement bytes.
pub(super) enum Parsed {
    Small(i64),
    Big(Vec<u8>),
}

/// Reads an optionally signed decimal number; `None` when the text is not one or is too long.
pub(super) fn parse_decimal(text: &str) -> Option<Parsed> {
    let text = text.trim();
    if let Ok(v) = text.parse::<i64>() {
        return Some(Parsed::Small(v));
    }
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if digits.is_empty() || digits.len() > MAX_DIGITS || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let mut limbs: Vec<u32> = Vec::new();
    for b in digits.bytes() {
        let mut carry = u64::from(b - b'0');
        for limb in &mut limbs {
            let v = u64::from(*limb) * 10 + carry;
            *limb = v as u32;
            carry = v >> 32;
        }
        if carry > 0 {
            limbs.push(carry as u32);
        }
    }
    let mut bytes: Vec<u8> = limbs.iter().flat_map(|l| l.to_le_bytes()).collect();
    bytes.push(0);
    if negative {
        let mut carry = true;
        for b in &mut bytes {
            let (v, c) = (!*b).overflowing_add(u8::from(carry));
            *b = v;
            carry = c;
        }
    }
    Some(from_bytes(&bytes))
}

/// Reads little-endian two's complement bytes of any length.
pub(super) fn from_bytes(bytes: &[u8]) -> Parsed {
    let short = trim(bytes);
    if short.len() <= 8 {
        let negative = short.last().is_some_and(|b| b & 0x80 != 0);
        let mut full = [if negative { 0xff } else { 0 }; 8];
        full[..short.len()].copy_from_slice(short);
        return Parsed::Small(i64::from_le_bytes(full));
    }
    Parsed::Big(short.to_vec())
}

/// Cuts sign bytes that carry no information, as Python's pickler does.
pub(crate) fn trim(bytes: &[u8]) -> &[u8] {
    let mut n = bytes.len();
    while n > 1 {
        let (last, before) = (bytes[n - 1], bytes[n - 2]);
        let redundant = (last == 0 && before & 0x80 == 0) || (last == 0xff && before & 0x80 != 0);
        if !redundant {
            break;
        }
        n -= 1;
    }
    &bytes[..n]
}
