import Foundation

/// Writes lines for a person on standard error.
enum StandardError {
    static func write(_ text: String) { FileHandle.standardError.write(Data((text + "\n").utf8)) }
}
