/// The records of the last 10,000 requests.
///
/// Older records are removed in batches, so up to 1,000 of them may still be present.
struct RecordRing: Sendable {
    private var entries: [RecordedRequest] = []
    private var first = 0
    private let limit = 10_000

    mutating func append(_ request: RecordedRequest) -> Int {
        entries.append(request)
        if entries.count > limit + 1_000 {
            let surplus = entries.count - limit
            entries.removeFirst(surplus)
            first += surplus
        }
        return first + entries.count - 1
    }

    mutating func setStatus(_ status: Int, of ticket: Int) {
        let index = ticket - first
        if entries.indices.contains(index) { entries[index].status = status }
    }

    mutating func clear() {
        first += entries.count
        entries.removeAll()
    }

    var all: [RecordedRequest] { entries.suffix(limit) }
}
