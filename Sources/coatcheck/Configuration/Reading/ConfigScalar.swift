/// A scalar of the file with its line.
///
/// YAML's own types (`off` as a boolean, `1e3` as a number) are ignored, because the broker uses the text as it is written.
struct ConfigScalar: Sendable {
    let text: String
    let line: Int?
    /// Whether the scalar is unquoted, so that `true` and `1` can have their YAML types in settings that distinguish types.
    var isPlain = true
}
