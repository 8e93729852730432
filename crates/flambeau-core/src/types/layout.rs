//! Layouts and memory formats.

/// How a tensor's elements are stored (`torch.layout`).
///
/// ```
/// use torch::{Layout, prelude::*};
/// let x = torch::eye(2);
/// assert_eq!((x.layout(), x.to_sparse().layout()), (Layout::Strided, Layout::SparseCoo));
/// assert_eq!(Layout::SparseCoo.name(), "sparse_coo");
/// ```
#[doc(alias = "torch.layout")]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Layout {
    /// Dense with strides.
    Strided,
    /// Coordinates and values.
    SparseCoo,
    /// Compressed rows.
    SparseCsr,
    /// Compressed columns.
    SparseCsc,
    /// Compressed rows of blocks.
    SparseBsr,
    /// Compressed columns of blocks.
    SparseBsc,
    /// Nested tensors with ragged rows.
    Jagged,
}
impl Layout {
    /// Name as in `torch.strided`, without the module.
    pub fn name(self) -> &'static str {
        match self {
            Layout::Strided => "strided",
            Layout::SparseCoo => "sparse_coo",
            Layout::SparseCsr => "sparse_csr",
            Layout::SparseCsc => "sparse_csc",
            Layout::SparseBsr => "sparse_bsr",
            Layout::SparseBsc => "sparse_bsc",
            Layout::Jagged => "jagged",
        }
    }
    /// The layout of that name.
    pub fn from_name(s: &str) -> Option<Layout> {
        use Layout::*;
        [Strided, SparseCoo, SparseCsr, SparseCsc, SparseBsr, SparseBsc, Jagged]
            .into_iter()
            .find(|l| l.name() == s)
    }
}

/// Order of dimensions in memory (`torch.memory_format`).
///
/// ```
/// use torch::MemoryFormat;
/// let x = torch::zeros([1, 3, 4, 5]);
/// let images = x.to(MemoryFormat::ChannelsLast);
/// assert_eq!((x.strides(), images.strides()), (&[60, 20, 5, 1][..], &[60, 1, 15, 3][..]));
/// ```
#[doc(alias = "torch.memory_format")]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MemoryFormat {
    /// Decreasing strides.
    Contiguous,
    /// As the input, where it is dense and does not overlap.
    Preserve,
    /// NHWC.
    ChannelsLast,
    /// NDHWC.
    ChannelsLast3d,
}
impl MemoryFormat {
    /// Name as in `torch.channels_last`, without the module.
    pub fn name(self) -> &'static str {
        match self {
            MemoryFormat::Contiguous => "contiguous_format",
            MemoryFormat::Preserve => "preserve_format",
            MemoryFormat::ChannelsLast => "channels_last",
            MemoryFormat::ChannelsLast3d => "channels_last_3d",
        }
    }
    /// The memory format of that name.
    pub fn from_name(s: &str) -> Option<MemoryFormat> {
        use MemoryFormat::*;
        [Contiguous, Preserve, ChannelsLast, ChannelsLast3d].into_iter().find(|m| m.name() == s)
    }
}
