import Glibc

/// The reason why a file of the configuration cannot be used.
enum FileFault: Error, Sendable, Equatable, CustomStringConvertible {
    case missing
    case notPermitted
    case folder
    case notRegular
    case tooLarge(limit: Int)
    case unreadable(Int32)

    /// Maps an error code of the operating system.
    init(errno code: Int32) {
        self =
            switch code {
            case ENOENT, ENOTDIR: .missing
            case EACCES, EPERM: .notPermitted
            case EISDIR: .folder
            case ENXIO: .notRegular
            default: .unreadable(code)
            }
    }

    var description: String {
        switch self {
        case .missing: "does not exist"
        case .notPermitted: "may not be read by this process's user"
        case .folder: "is a folder"
        case .notRegular: "is no regular file"
        case .tooLarge(let limit): "has more than \(SizeText.write(limit))"
        case .unreadable(let code): "cannot be read (\(String(cString: strerror(code))))"
        }
    }
}
