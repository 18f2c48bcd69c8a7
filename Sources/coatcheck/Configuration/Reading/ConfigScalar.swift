/// A scalar of the file with its place.
///
/// YAML's own typing (`off` as a boolean, `1e3` as a number) is passed over: what is written is what counts.
struct ConfigScalar: Sendable {
    let text: String
    let line: Int?
    /// Whether it stands there without quotes, so that `true` and `1` are no texts.
    var isPlain = true
}
