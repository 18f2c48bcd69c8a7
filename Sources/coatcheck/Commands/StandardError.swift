import Foundation

/// Writes lines for people to standard error.
enum StandardError {
    static func write(_ text: String) { FileHandle.standardError.write(Data((text + "\n").utf8)) }
}
