import Glibc

/// Standard output without its buffer: a script that waits for the line gets it at once.
enum LineOutput {
    static func write(_ line: String) {
        let bytes = Array((line + "\n").utf8)
        _ = bytes.withUnsafeBytes { Glibc.write(1, $0.baseAddress, $0.count) }
    }
}
