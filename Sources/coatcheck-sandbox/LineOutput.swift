import Glibc

/// Unbuffered standard output, so that a script that waits for a line gets it at once.
enum LineOutput {
    static func write(_ line: String) {
        let bytes = Array((line + "\n").utf8)
        _ = bytes.withUnsafeBytes { Glibc.write(1, $0.baseAddress, $0.count) }
    }
}
