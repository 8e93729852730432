//! Arguments outside their domain, or that do not fit each other.

use super::*;

#[test]
fn arguments_that_do_not_fit() {
    cases! {
        Set::new, t;
        "pad, odd", Runtime,
            "Padding length must be divisible by 2"
            => ops::pad(&t.x, &[1], "constant", None);
        "pad, too many", Runtime,
            "Padding length should be less than or equal to two times the input dimension but got padding length 6 and input of dimension 2"
            => ops::pad(&t.x, &[1; 6], "constant", None);
        "pad, negative", Runtime,
            "narrow(): length must be non-negative."
            => ops::pad(&t.x, &[-2, -2], "constant", None);
        "pad, mode", Unsupported, "Unrecognised padding mode x" => ops::pad(&t.x3, &[1, 1], "x", None);
        "pad, reflect too far", Runtime,
            "Argument #4: Padding size should be less than the corresponding input dimension, but got: padding (3, 3) at dimension 2 of input [1, 2, 3]"
            => ops::pad(&t.x3, &[3, 3], "reflect", None);
        "conv2d, dims", Runtime,
            "Expected 3D (unbatched) or 4D (batched) input to conv2d, but got input of size: [2, 3]"
            => ops::conv2d(&t.x, &t.w, None, &[1], &[0], &[1], 1, "zeros");
        "conv2d, channels", Runtime,
            "Given groups=1, weight of size [2, 2, 3, 3], expected input[1, 3, 4, 4] to have 2 channels, but got 3 channels instead"
            => ops::conv2d(&f32s(&[1, 3, 4, 4]), &t.w, None, &[1], &[0], &[1], 1, "zeros");
        "conv2d, kernel", Runtime,
            "Calculated padded input size per channel: (4 x 4). Kernel size: (5 x 5). Kernel size can't be greater than actual input size"
            => ops::conv2d(&t.img, &f32s(&[2, 2, 5, 5]), None, &[1], &[0], &[1], 1, "zeros");
        "conv2d, stride 0", Runtime,
            "non-positive stride is not supported"
            => ops::conv2d(&t.img, &t.w, None, &[0], &[0], &[1], 1, "zeros");
        "conv2d, stride -1", Runtime,
            "non-positive stride is not supported"
            => ops::conv2d(&t.img, &t.w, None, &[-1], &[0], &[1], 1, "zeros");
        "conv2d, padding -1", Runtime,
            "negative padding is not supported"
            => ops::conv2d(&t.img, &t.w, None, &[1], &[-1], &[1], 1, "zeros");
        "conv2d, dilation 0", Runtime,
            "dilation should be greater than zero, but got [0, 0]"
            => ops::conv2d(&t.img, &t.w, None, &[1], &[0], &[0], 1, "zeros");
        "conv2d, dilation 0 of two images", Runtime,
            "non-positive dilation is not supported"
            => ops::conv2d(&f32s(&[2, 2, 4, 4]), &t.w, None, &[1], &[0], &[0], 1, "zeros");
        "conv2d, bias before dims", Runtime,
            "Input type (float) and bias type (double) should be the same"
            => ops::conv2d(&t.x, &t.w, Some(&f64s(&[2])), &[1], &[0], &[1], 1, "zeros");
        "conv2d, kernel before dtypes", Runtime,
            "Calculated padded input size per channel: (4 x 4). Kernel size: (5 x 0). Kernel size can't be greater than actual input size"
            => ops::conv2d(&t.img, &f64s(&[2, 2, 5, 0]), None, &[1], &[0], &[1], 1, "zeros");
        "conv1d, complex numbers before groups", Runtime,
            "Input type (CPUComplexFloatType) and weight type (torch.FloatTensor) should be the same"
            => ops::conv1d(&zeros(&[1, 4, 4], DType::C64), &f32s(&[2, 4, 2]), None, &[1], &[0], &[1], 3, "zeros");
        "conv3d, points of truth values", Unsupported,
            "\"slow_conv3d_cpu\" not implemented for 'Bool'"
            => ops::conv3d(&zeros(&[1, 1, 2, 2, 2], DType::Bool), &zeros(&[1, 1, 1, 1, 1], DType::Bool), None,
                &[1], &[0], &[1], 1, "zeros");
        "conv2d, three paddings", Runtime,
            "expected padding to be a single integer value or a list of 2 values to match the convolution dimensions, but got padding=[1, 2, 3]"
            => ops::conv2d(&t.img, &t.w, None, &[1], &[1, 2, 3], &[1], 1, "zeros");
        "conv2d, two groups of dtypes", Runtime,
            "Input type (torch.FloatTensor) and weight type (torch.DoubleTensor) should be the same or input should be a MKLDNN tensor and weight is a dense tensor"
            => ops::conv2d(&t.img, &f64s(&[2, 1, 3, 3]), None, &[1], &[0], &[1], 2, "zeros");
        "conv2d, weight of four dimensions more", Runtime,
            "expected stride to be a single integer value or a list of 3 values to match the convolution dimensions, but got stride=[1, 1]"
            => ops::conv2d(&t.img, &f32s(&[2, 2, 3, 3, 1]), None, &[1], &[0], &[1], 1, "zeros");
        "conv2d, groups 0", Runtime,
            "non-positive groups is not supported"
            => ops::conv2d(&t.img, &t.w, None, &[1], &[0], &[1], 0, "zeros");
        "conv2d, groups", Runtime,
            "Given groups=5, expected weight to be at least 5 at dimension 0, but got weight of size [2, 2, 3, 3] instead"
            => ops::conv2d(&t.img, &t.w, None, &[1], &[0], &[1], 5, "zeros");
        "conv2d, bias", Runtime,
            "Given weight of size [2, 2, 3, 3], expected bias to be 1-dimensional with 2 elements, but got bias of size [3] instead"
            => ops::conv2d(&t.img, &t.w, Some(&f32s(&[3])), &[1], &[0], &[1], 1, "zeros");
        "conv2d, dtypes", Runtime,
            "expected scalar type Float but found Double"
            => ops::conv2d(&t.img, &f64s(&[2, 2, 3, 3]), None, &[1], &[0], &[1], 1, "zeros");
        "conv2d, bias of another dtype", Runtime,
            "Input type (float) and bias type (long int) should be the same"
            => ops::conv2d(&t.img, &t.w, Some(&zeros(&[2], DType::I64)), &[1], &[0], &[1], 1, "zeros");
        "conv2d by a word, weight of another dtype", Runtime,
            "expected scalar type Float but found Long"
            => ops::conv2d_padding(&t.img, &zeros(&[2, 2, 3, 3], DType::I64), Some(&f32s(&[2])), &[1], "valid", &[1], 1, "zeros");
        "conv2d of bytes, dilated", Unsupported,
            "\"slow_conv_dilated<>\" not implemented for 'Byte'"
            => ops::conv2d(&zeros(&[1, 2, 9, 9], DType::U8), &t.w, None, &[1], &[0], &[2], 1, "zeros");
        "max_pool2d of bools, channels last", Unsupported,
            "\"max_pool2d_channels_last\" not implemented for 'Bool'"
            => ops::max_pool2d(&core::permute(&zeros(&[1, 4, 4, 2], DType::Bool), &[0, 3, 1, 2])?, &[2], None, &[0], &[1], false, false);
        "huber_loss, a complex target", Runtime,
            "result type ComplexFloat can't be cast to the desired output type Float"
            => ops::huber_loss(&t.x, &zeros(&[2, 3], DType::C64), "mean", 1.0, None);
        "conv2d, padding's name", Runtime,
            "Invalid padding string: 'x'"
            => ops::conv2d_padding(&t.img, &t.w, None, &[1], "x", &[1], 1, "zeros");
        "conv_transpose2d, output padding", Runtime,
            "output padding must be smaller than either stride or dilation, but got output_padding_height: 3 output_padding_width: 3 stride_height: 1"
            => ops::conv_transpose2d(&t.img, &t.w, None, &[1], &[0], &[3], 1, &[1]);
        "max_pool2d, kernel 0", Runtime,
            "stride should not be zero"
            => ops::max_pool2d(&t.img, &[0], None, &[0], &[1], false, false);
        "max_pool2d, padding", Runtime,
            "pad should be at most half of effective kernel size, but got pad=2, kernel_size=2 and dilation=1"
            => ops::max_pool2d(&t.img, &[2], None, &[2], &[1], false, false);
        "max_pool2d, padding -1", Runtime,
            "pad must be non-negative, but got pad: -1"
            => ops::max_pool2d(&t.img, &[2], None, &[-1], &[1], false, false);
        "max_pool2d, too small", Runtime,
            "Given input size: (2x4x4). Calculated output size: (2x0x0). Output size is too small"
            => ops::max_pool2d(&t.img, &[9], None, &[0], &[1], false, false);
        "max_pool2d, dims", Runtime,
            "non-empty 3D or 4D (batch mode) tensor expected for input"
            => ops::max_pool2d(&t.x, &[2], None, &[0], &[1], false, false);
        "max_pool2d, three kernels", Runtime,
            "max_pool2d: kernel_size must either be a single int, or a tuple of two ints"
            => ops::max_pool2d(&t.img, &[2, 2, 2], None, &[0], &[1], false, false);
        "max_pool2d, dilation", Runtime,
            "pad should be at most half of effective kernel size, but got pad=1, kernel_size=3 and dilation=-9"
            => ops::max_pool2d(&t.img, &[3], Some(&[1]), &[1], &[-9], false, false);
        "max_pool2d, half of the kernel", Runtime,
            "pad should be smaller than or equal to half of kernel size, but got padW = 2, padH = 2, kW = 3, kH = 3"
            => ops::max_pool2d(&t.img, &[3], Some(&[1]), &[2], &[2], false, false);
        "max_pool1d, two kernels", Runtime,
            "max_pool1d() kernel_size must be an int, list of ints or tuple of ints of size 1 but got size 2"
            => ops::max_pool1d(&t.x3, &[2, 2], None, &[0], &[1], false, false);
        "avg_pool1d of nothing", Runtime,
            "Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, but got:[0, 1, 3]"
            => ops::avg_pool1d(&f32s(&[0, 3]), &[2], None, &[0], false, true);
        "avg_pool3d, stride", Runtime,
            "stride should be greater than zero, but got dT: -9 dH: -9 dW: -9"
            => ops::avg_pool3d(&f32s(&[1, 4, 4, 4]), &[2], Some(&[-9]), &[0], false, true, None);
        "max_pool3d of nothing", Runtime,
            "max_pool3d_with_indices_out_cpu_template(): Expected input to have non-zero size for non-batch dimensions, but input has sizes [2, 0, 5, 4, 4] with dimension 1 being empty"
            => ops::max_pool3d(&f32s(&[2, 0, 5, 4, 4]), &[3], None, &[0], &[1], false, false);
        "linear, bias", Shape,
            "The expanded size of the tensor (2) must match the existing size (3) at non-singleton dimension 1.  Target sizes: [2, 2].  Tensor sizes: [3]"
            => ops::linear(&t.x, &f32s(&[2, 3]), Some(&f32s(&[3])));
        "linear, vector with bias", Runtime,
            "addmm: mat2 must be a matrix, got 1-D tensor"
            => ops::linear(&t.x, &f32s(&[3]), Some(&f32s(&[1])));
        "layer_norm, dtypes", Runtime,
            "mixed dtype (CPU): expect parameter to have scalar type of Float"
            => ops::layer_norm(&t.x, &[3], Some(&f64s(&[3])), None, 1e-5, true);
        "batch_norm, dtype of the bias", Runtime,
            "expected scalar type Float but found Double"
            => ops::batch_norm(&t.x, None, None, Some(&f32s(&[3])), Some(&f64s(&[3])), true, 0.1, 1e-5);
        "avg_pool2d, divisor", Runtime,
            "divisor must be not zero"
            => ops::avg_pool2d(&t.img, &[2], None, &[0], false, true, Some(0));
        "adaptive_avg_pool2d, negative", Runtime,
            "adaptive_avg_pool2d: elements of output_size must be greater than or equal to 0 but received {-1, -1}"
            => ops::adaptive_avg_pool2d(&t.img, &[-1]);
        "adaptive_avg_pool2d of nothing", Runtime,
            "adaptive_avg_pool2d(): Expected input to have non-zero size for non-batch dimensions, but input has sizes [1, 2, 0, 4] with dimension 2 being empty"
            => ops::adaptive_avg_pool2d(&f32s(&[1, 2, 0, 4]), &[2]);
        "max_unpool2d, negative", Value,
            "max_unpooling: output_size must contain non-negative spatial dimensions, but got output_size[0]=-6"
            => ops::max_unpool2d(&t.img, &t.far, &[1], None, &[5], None);
        "max_unpool2d, place", Runtime,
            "Found an invalid max index: 99 (output volumes are of size 4x4)"
            => ops::max_unpool2d(&t.img, &t.far, &[1], None, &[0], None);
        "interpolate, neither", Value,
            "either size or scale_factor should be defined"
            => ops::interpolate(&t.img, None, None, "nearest", None, None, false);
        "interpolate, negative", Runtime,
            "Input and output sizes should be greater than 0, but got input (H: 4, W: 4) output (H: -1, W: -1)"
            => ops::interpolate(&t.img, Some(&[-1]), None, "nearest", None, None, false);
        "interpolate, mode", Unsupported,
            "Got 4D input, but linear mode needs 3D input"
            => ops::interpolate(&t.img, Some(&[2]), None, "linear", None, None, false);
        "unfold, kernel", Runtime,
            "Given input with spatial size (4, 4), kernel_size=(5, 5), dilation=(1, 1), padding=(0, 0), calculated shape of the array of sliding blocks as (0, 0),"
            => ops::unfold(&t.img, &[5], &[1], &[0], &[1]);
        "unfold, kernel before dims", Runtime,
            "kernel size should be greater than zero, but got kernel_height: 0 kernel_width: 0"
            => ops::unfold(&t.x, &[0], &[1], &[0], &[1]);
        "fold, lists before sizes", Runtime,
            "It is expected stride equals to 2, but got size 3"
            => ops::fold(&t.x3, &[3], &[2], &[0], &[0], &[1, 1, 1]);
        "unfold, stride", Runtime,
            "stride should be greater than zero, but got stride_height: 0 stride_width: 0"
            => ops::unfold(&t.img, &[2], &[1], &[0], &[0]);
        "fold, blocks", Runtime,
            "Given output_size=(4, 4), kernel_size=(2, 2), dilation=(1, 1), padding=(0, 0), stride=(1, 1), expected size of input's dimension 2 to match the"
            => ops::fold(&f32s(&[1, 4, 8]), &[4, 4], &[2], &[1], &[0], &[1]);
        "pixel_shuffle, channels", Runtime,
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but input.size(-3)=2 is not divisible by 4"
            => ops::pixel_shuffle(&t.img, 2);
        "pixel_shuffle, factor", Runtime,
            "pixel_shuffle expects a positive upscale_factor, but got 0"
            => ops::pixel_shuffle(&t.img, 0);
        "pixel_unshuffle, factor", Runtime,
            "pixel_unshuffle expects height to be divisible by downscale_factor, but input.size(-2)=4 is not divisible by 3"
            => ops::pixel_unshuffle(&t.img, 3);
        "channel_shuffle, groups", Runtime,
            "Number of groups to divide channels in must be positive. Value of groups:0"
            => ops::channel_shuffle(&t.img, 0);
        "grid_sample, batch", Runtime,
            "grid_sampler(): expected grid and input to have same batch size, but got input with sizes [1, 2, 4, 4] and grid with sizes [2, 4, 4, 2]"
            => ops::grid_sample(&t.img, &f32s(&[2, 4, 4, 2]), "bilinear", "zeros", Some(false));
        "grid_sample, mode", Value,
            "nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: 'x'"
            => ops::grid_sample(&t.img, &f32s(&[1, 4, 4, 2]), "x", "zeros", Some(false));
        "one_hot, negative", Runtime, "Class values must be non-negative." => ops::one_hot(&ints(&[-1]), -1);
        "one_hot, too few", Runtime,
            "Class values must be smaller than num_classes."
            => ops::one_hot(&t.n, 2);
        "one_hot of floats", Runtime,
            "one_hot is only applicable to index tensor of type LongTensor."
            => ops::one_hot(&t.x, -1);
        "one_hot of nothing", Runtime,
            "Can not infer total number of classes from empty tensor."
            => ops::one_hot(&ints(&[]), -1);
        "embedding, index", Index,
            "index out of range in self"
            => ops::embedding(&ints(&[7]), &t.x, None, None, 2.0, false, false);
        "embedding, index of a norm", Index,
            "select(): index 7 out of range for tensor of size [2, 3] at dimension 0"
            => ops::embedding(&ints(&[7]), &t.x, None, Some(1.0), 2.0, false, false);
        "embedding by floats", Runtime,
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got torch.FloatTensor instead (while checking arguments for embedding)"
            => ops::embedding(&t.x, &t.x, None, None, 2.0, false, false);
        "embedding, padding index", Assertion,
            "Padding_idx must be within num_embeddings"
            => ops::embedding(&t.n, &t.x, Some(5), None, 2.0, false, false);
        "embedding_bag, offsets", Runtime,
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. However, got 1\n[ torch.LongTensor{} ]"
            => ops::embedding_bag(&t.n, &t.x, Some(&ints(&[1])), None, 2.0, false, "mean", false, None, false, None);
        "embedding_bag, mode", Value,
            "mode has to be one of sum, mean or max"
            => ops::embedding_bag(&t.n, &t.x, Some(&ints(&[0])), None, 2.0, false, "x", false, None, false, None);
        "linear, sizes", Runtime,
            "mm: mat1 and mat2 shapes cannot be multiplied (2x3 and 4x2)"
            => ops::linear(&t.x, &f32s(&[2, 4]), None);
        "linear, dtypes", Runtime,
            "expected m1 and m2 to have the same dtype, but got: float != double"
            => ops::linear(&t.x, &f64s(&[2, 3]), None);
        "bilinear, weight's dims", Runtime,
            "number of dimensions must match"
            => ops::bilinear(&t.x, &t.x, &f32s(&[1, 3, 3, 1]), None);
        "bilinear, sizes", Runtime,
            "bilinear(): input1 size does not match weight size: got 3 but expected 4"
            => ops::bilinear(&t.x, &t.x, &f32s(&[1, 4, 3]), None);
        "cross_entropy, target", Index,
            "Target 9 is out of bounds."
            => ops::cross_entropy(&t.x, &ints(&[0, 9]), None, None, -100, None, "mean", 0.0);
        "cross_entropy, batch", Value,
            "Expected input batch_size (2) to match target batch_size (1)."
            => ops::cross_entropy(&t.x, &ints(&[0]), None, None, -100, None, "mean", 0.0);
        "cross_entropy, smoothing", Runtime,
            "label_smoothing must be between 0.0 and 1.0. Got: 2"
            => ops::cross_entropy(&t.x, &ints(&[0, 1]), None, None, -100, None, "mean", 2.0);
        "cross_entropy, weight", Runtime,
            "weight tensor should be defined either for all 3 classes or no classes but got weight tensor of shape: [5]"
            => ops::cross_entropy(&t.x, &ints(&[0, 1]), Some(&f32s(&[5])), None, -100, None, "mean", 0.0);
        "cross_entropy, reduction", Value,
            "x is not a valid value for reduction"
            => ops::cross_entropy(&t.x, &ints(&[0, 1]), None, None, -100, None, "x", 0.0);
        "nll_loss, target's dtype", Runtime,
            "expected target dtype to be Long or Byte, but got Float"
            => ops::nll_loss(&t.x, &f32s(&[2]), None, None, -100, None, "mean");
        "nll_loss, dtype before the target's size", Runtime,
            "expected target dtype to be Long or Byte, but got Float"
            => ops::nll_loss(&f32s(&[3]), &f32s(&[2]), None, None, -100, None, "mean");
        "nll_loss, weights of an image", Runtime,
            "weight tensor should be defined either for all or no classes"
            => ops::nll_loss(&t.img, &zeros(&[1, 4, 4], DType::I64), Some(&f32s(&[3])), None, -100, None, "mean");
        "mse_loss, sizes before the reduction", Shape,
            "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1"
            => ops::mse_loss(&t.x, &f32s(&[2, 4]), None, None, "x", None);
        "binary_cross_entropy, target", Runtime,
            "all elements of target should be between 0 and 1"
            => ops::binary_cross_entropy(&t.x, &t.twos, None, None, None, "mean");
        "binary_cross_entropy, input", Runtime,
            "all elements of input should be between 0 and 1"
            => ops::binary_cross_entropy(&t.twos, &t.twos, None, None, None, "mean");
        "glu, an odd number", Runtime,
            "Halving dimension must be even, but dimension 1 is size 3"
            => ops::glu(&zeros(&[2, 3], DType::C64), -1);
        "avg_pool1d of no truth values", Unsupported,
            "\"avg_pool2d\" not implemented for 'Bool'"
            => ops::avg_pool1d(&zeros(&[0, 2, 4], DType::Bool), &[2], None, &[0], false, true);
        "local_response_norm, small integers", Unsupported,
            "\"avg_pool3d_out_frame\" not implemented for 'Int'"
            => ops::local_response_norm(&zeros(&[1, 2, 2, 2], DType::I32), 2, 1e-4, 0.75, 1.0);
        "mse_loss, reduction", Value,
            "x is not a valid value for reduction"
            => ops::mse_loss(&t.x, &t.x, None, None, "x", None);
        "binary_cross_entropy, sizes", Value,
            "Using a target size (torch.Size([3])) that is different to the input size (torch.Size([2, 3])) is deprecated. Please ensure they have the same size."
            => ops::binary_cross_entropy(&t.x, &f32s(&[3]), None, None, None, "mean");
        "binary_cross_entropy, values", Runtime,
            "all elements of input should be between 0 and 1"
            => ops::binary_cross_entropy(&t.twos, &t.x, None, None, None, "mean");
        "smooth_l1_loss, beta", Runtime,
            "smooth_l1_loss does not support negative values for beta."
            => ops::smooth_l1_loss(&t.x, &t.x, None, None, "mean", -1.0);
        "huber_loss, delta", Runtime,
            "huber_loss does not support non-positive values for delta."
            => ops::huber_loss(&t.x, &t.x, "mean", 0.0, None);
        "multi_margin_loss, p", Value,
            "only p == 1 and p == 2 supported"
            => ops::multi_margin_loss(&t.x, &ints(&[0, 1]), 3, 1.0, None, None, None, "mean");
        "multi_margin_loss, target", Runtime,
            "target out of range"
            => ops::multi_margin_loss(&t.x, &ints(&[0, 5]), 1, 1.0, None, None, None, "mean");
        "triplet_margin_loss, margin", Value,
            "margin must be greater than 0, got -1.0"
            => ops::triplet_margin_loss(&t.x, &t.x, &t.x, -1.0, 2.0, 1e-6, false, None, None, "mean");
        "batch_norm of one value", Value,
            "Expected more than 1 value per channel when training, got input size torch.Size([1, 3])"
            => ops::batch_norm(&f32s(&[1, 3]), None, None, None, None, true, 0.1, 1e-5);
        "batch_norm, statistics", Runtime,
            "running_mean should contain 3 elements not 5"
            => ops::batch_norm(&t.x, Some(&f32s(&[5])), Some(&f32s(&[5])), None, None, false, 0.1, 1e-5);
        "batch_norm, none", Runtime,
            "running_mean must be defined in evaluation mode"
            => ops::batch_norm(&t.x, None, None, None, None, false, 0.1, 1e-5);
        "layer_norm, shape", Runtime,
            "Given normalized_shape=[4], expected input with shape [*, 4], but got input of size[2, 3]"
            => ops::layer_norm(&t.x, &[4], None, None, 1e-5, true);
        "layer_norm, no shape", Runtime,
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got normalized_shape = []"
            => ops::layer_norm(&t.x, &[], None, None, 1e-5, true);
        "layer_norm, weight", Runtime,
            "Expected weight to be of same shape as normalized_shape, but got weight of shape [2] and normalized_shape = [3]"
            => ops::layer_norm(&t.x, &[3], Some(&f32s(&[2])), None, 1e-5, true);
        "rms_norm, shape", Runtime,
            "Given normalized_shape=[4], expected input with shape [*4], but got input of size[2, 3]"
            => ops::rms_norm(&t.x, &[4], None, None);
        "group_norm, groups", Runtime,
            "Expected number of channels in input to be divisible by num_groups, but got input of shape [1, 2, 4, 4] and num_groups=3"
            => ops::group_norm(&t.img, 3, None, None, 1e-5, true);
        "group_norm, groups 0", Runtime,
            "Expected num groups to be greater than 0, got 0"
            => ops::group_norm(&t.img, 0, None, None, 1e-5, true);
        "instance_norm, dims", Value,
            "Expected more than 1 spatial element when training, got input size torch.Size([1, 2, 1])"
            => ops::instance_norm(&f32s(&[1, 2, 1]), None, None, None, None, true, 0.1, 1e-5);
        "local_response_norm, dims", Value,
            "Expected 3D or higher dimensionality"
            => ops::local_response_norm(&t.x, 2, 1e-4, 0.75, 1.0);
        "dropout, p", Value,
            "dropout probability has to be between 0 and 1, but got 2.0"
            => ops::dropout(&t.x, 2.0, true, false);
        "dropout, p nan", Runtime,
            "dropout probability has to be between 0 and 1, but got nan"
            => ops::dropout(&t.x, f64::NAN, true, false);
        "glu, odd", Runtime,
            "Halving dimension must be even, but dimension 1 is size 3"
            => ops::glu(&t.x, -1);
        "glu, dim", Index,
            "Dimension out of range (expected to be in range of [-2, 1], but got 5)"
            => ops::glu(&t.x, 5);
        "prelu, weights", Runtime,
            "Mismatch of parameter numbers and input channel size. Found parameter numbers = 7 and channel size = 3."
            => ops::prelu(&t.x, &f32s(&[7]));
        "rrelu, bounds", Runtime,
            "Lower bound should be less than or equal to the upper bound"
            => ops::rrelu(&t.x, 1.0, 0.0, true, false);
        "gelu, approximation", Runtime,
            "approximate argument must be either none or tanh."
            => ops::gelu(&t.x, "x");
        "lp_pool2d, sizes", Value,
            "not enough values to unpack (expected 2, got 0)"
            => ops::lp_pool2d(&f32s(&[1, 4, 4]), 2.0, &[], None, false);
        "rms_norm, weights before sizes", Runtime,
            "Expected weight to be of same shape as normalized_shape, but got weight of shape [3] and normalized_shape = [1, 2, 3]"
            => ops::rms_norm(&t.x, &[1, 2, 3], Some(&f32s(&[3])), None);
        "max_unpool3d, sizes that the kernel does not have", Value,
            "output_size should be a sequence containing 0 or 2 elements, but it has a length of '5'"
            => ops::max_unpool3d(&f32s(&[1, 1, 2, 2, 2]), &f32s(&[1, 1, 2, 2, 2]), &[], None, &[0], Some(&[1, 1, 2, 2, 2]));
        "softmax, dim", Index,
            "Dimension out of range (expected to be in range of [-2, 1], but got 5)"
            => ops::softmax(&t.x, Some(5), 3, None);
        "attention, sizes", Runtime,
            "mm: mat1 and mat2 shapes cannot be multiplied (2x3 and 4x2)"
            => ops::scaled_dot_product_attention(&t.x, &f32s(&[2, 4]), &t.x, None, 0.0, false, None, false);
        "attention, dims", Runtime,
            "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: 1 key.dim: 2 and value.dim: 2 instead."
            => ops::scaled_dot_product_attention(&f32s(&[3]), &t.x, &t.x, None, 0.0, false, None, false);
        "attention, mask and causal", Runtime,
            "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True"
            => ops::scaled_dot_product_attention(&t.x, &t.x, &t.x, Some(&f32s(&[2, 2])), 0.0, true, None, false);
        "cosine_similarity, sizes", Shape,
            "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1"
            => ops::cosine_similarity(&t.x, &f32s(&[2, 4]), 1, 1e-8);
        "local_response_norm, no channels are left", Runtime,
            "narrow(): length must be non-negative."
            => ops::local_response_norm(&f32s(&[1, 6, 3]), -77, 1e-4, 0.75, 1.0);
        "avg_pool3d, halves", Unsupported,
            "\"avg_pool3d_out_frame\" not implemented for 'BFloat16'"
            => ops::avg_pool3d(&zeros(&[1, 2, 4, 4, 4], DType::BF16), &[2], None, &[0], false, true, None);
        "adaptive_max_pool2d, planes of channels that lie together", Unsupported,
            "\"adaptive_max_pool2d_channels_last\" not implemented for 'Long'"
            => ops::adaptive_max_pool2d(&last(&zeros(&[1, 2, 4, 4], DType::I64)), &[2, 2], false);
        "binary_cross_entropy_with_logits, truth values", Unsupported,
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator instead."
            => ops::binary_cross_entropy_with_logits(&t.x, &zeros(&[2, 3], DType::Bool), None, None, None, "mean", None);
        "fractional_max_pool2d, nothing to pool", Index,
            "Dimension specified as 0 but tensor has no dimensions"
            => ops::fractional_max_pool2d(&f32s(&[]), &[3], Some(&[2, 3]), None, false, None);
        "normalize, dim", Index,
            "Dimension out of range (expected to be in range of [-2, 1], but got 5)"
            => ops::normalize(&t.x, 2.0, &[5], 1e-12);
    }
}
