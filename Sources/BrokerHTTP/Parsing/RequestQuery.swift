import Broker

/// Reads query parameters by name and collects all faults; unknown parameters are faults too.
struct RequestQuery {
    private let pairs: FormPairs
    private var faults: [FieldFault] = []
    private var read: [String] = []

    /// Parses the text after the `?`; nil is an empty query.
    init(parsing query: Substring?) throws(BrokerProblem) {
        do throws(FormPairs.Failure) { pairs = try FormPairs(parsing: query ?? "", maximumPairs: 16) } catch {
            if case .duplicate(let name) = error {
                throw BrokerProblem(.invalidRequest, with: .fields([FieldFault(name.firstScalars(64), .duplicate)]))
            }
            let words = error.text(maximumPairs: 16)
            throw BrokerProblem(
                .invalidRequest, detail: "The query is malformed: \(words).", privateDetail: words)
        }
    }

    /// Returns an optional parameter.
    mutating func text(_ name: String, maximum: Int) -> String? {
        read.append(name)
        guard let text = pairs[name] else { return nil }
        guard (1...maximum).contains(text.utf8.count) else {
            faults.append(FieldFault(name, text.isEmpty ? .tooShort : .tooLong))
            return nil
        }
        return text
    }

    /// Adds a fault that the caller found.
    mutating func fault(_ name: String, _ code: FieldFault.Code) { faults.append(FieldFault(name, code)) }

    /// Throws all faults that were found.
    consuming func finish() throws(BrokerProblem) {
        let unknown = pairs.pairs.map(\.name).filter { name in !read.contains { $0.hasBytes(of: name) } }
        let all = faults + unknown.map { FieldFault($0.firstScalars(64), .unknown) }
        guard all.isEmpty else { throw BrokerProblem(.invalidRequest, with: .fields(all)) }
    }
}
