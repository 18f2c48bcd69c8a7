import Broker

/// An export from a store that this process has opened.
struct StoredExport: ExportSource {
    let export: SessionExport
    let order: SessionExport.Order

    func page(after cursor: String?) async throws -> SessionExport.Page { try await export.page(order, cursor: cursor) }

    func page(of handles: [SessionHandle]) async throws -> SessionExport.Page {
        try await export.page(order, of: handles)
    }

    func end(_ receipts: [SessionExport.Receipt]) async throws -> [SessionHandle] {
        try await export.end(receipts, actor: order.actor)
    }
}
