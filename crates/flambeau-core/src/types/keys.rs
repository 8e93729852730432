//! Dispatch keys: who gets to see an operator call, in which order.

/// One participant in dispatch. A higher key sees the call first; a kernel calls on below itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
#[repr(u8)]
pub enum Key {
    /// Strided tensors on the CPU.
    Cpu = 0,
    /// CUDA devices.
    Cuda = 1,
    /// Shapes without data.
    Meta = 2,
    /// Sparse layouts on the CPU.
    SparseCpu = 3,
    /// Quantized tensors on the CPU.
    QuantizedCpu = 4,
    /// A back end from outside the project.
    Private = 5,
    /// Rewrites views and in-place operators as functional ones.
    Functionalize = 6,
    /// Shows the calls below the gradients to a user's mode: composites come as what they are made of.
    Dispatch = 7,
    /// Records gradients; present on tensors that require a gradient or carry a tangent.
    Autograd = 8,
    /// Picks dtypes per operator.
    Autocast = 9,
    /// Tensors made of other tensors, which have the gradients: masked and nested ones.
    Wrapper = 10,
    /// Batched tensors of vmap.
    Batched = 11,
    /// Records calls into a graph.
    Tracer = 12,
    /// Names of dimensions: checks them, calls below itself without them, and names the results.
    Named = 13,
    /// Shows a user's mode every call as it is made.
    Mode = 14,
    /// Above all others: puts computed tensors in the place of those that stand for them.
    StandIn = 15,
}

/// Number of keys, and so of slots per operator.
pub const KEYS: usize = 16;

/// All keys, lowest first.
pub const ALL_KEYS: [Key; KEYS] = [
    Key::Cpu,
    Key::Cuda,
    Key::Meta,
    Key::SparseCpu,
    Key::QuantizedCpu,
    Key::Private,
    Key::Functionalize,
    Key::Dispatch,
    Key::Autograd,
    Key::Autocast,
    Key::Wrapper,
    Key::Batched,
    Key::Tracer,
    Key::Named,
    Key::Mode,
    Key::StandIn,
];

impl Key {
    /// Number of types of devices that are not built in: a crate brings their back ends.
    pub const LINKED: usize = 2;
    /// The place of a key among those of such devices.
    pub const fn linked(self) -> Option<usize> {
        match self {
            Key::Cuda => Some(0),
            Key::Private => Some(1),
            _ => None,
        }
    }
}

/// A set of [`Key`]s.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct KeySet(pub u32);

impl KeySet {
    /// No key.
    pub const EMPTY: KeySet = KeySet(0);
    /// All keys that stand for a device or layout.
    pub const BACKENDS: KeySet = KeySet(0x3f);
    /// The set of one key.
    #[inline(always)]
    pub const fn of(k: Key) -> KeySet {
        KeySet(1 << k as u8)
    }
    /// Union.
    #[inline(always)]
    pub const fn or(self, o: KeySet) -> KeySet {
        KeySet(self.0 | o.0)
    }
    /// Difference.
    #[inline(always)]
    pub const fn without(self, o: KeySet) -> KeySet {
        KeySet(self.0 & !o.0)
    }
    /// Membership.
    #[inline(always)]
    pub const fn has(self, k: Key) -> bool {
        self.0 & (1 << k as u8) != 0
    }
    /// All keys below `k`.
    #[inline(always)]
    pub const fn below(k: Key) -> KeySet {
        KeySet((1 << k as u8) - 1)
    }
    /// The key that sees the call first; `None` for the empty set.
    #[inline(always)]
    pub fn highest(self) -> Option<Key> {
        if self.0 == 0 { None } else { Some(ALL_KEYS[(31 - self.0.leading_zeros()) as usize % KEYS]) }
    }
}
impl std::ops::BitOr for KeySet {
    type Output = KeySet;
    #[inline(always)]
    fn bitor(self, o: KeySet) -> KeySet {
        self.or(o)
    }
}
