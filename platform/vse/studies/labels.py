"""Printed names of the systems and arms of studies."""

SYSTEMS = {
    "vsepp": "VSE++",
    "vsepp_average_pooling": "VSE++ on maps, mean",
    "vsepp_max_pooling": "VSE++ on maps, maximum",
    "vsepp_maxk": "VSE++ on maps, max-10",
    "vsepp_gpo": "VSE++, GPO",
    "vsepp_infonce": "VSE++, InfoNCE",
    "vsepp_sigmoid": "VSE++, sigmoid loss",
    "vsepp_longer": "VSE++, as long as UniVSE",
    "vsepp_truth": "VSE++, true pairs masked",
    "vsepp_random": "VSE++, random backbone",
    "floor_sum": "plain GRU, sum",
    "floor_hardest": "plain GRU, hardest",
    "vse": "VSE",
    "vse0": "VSE0",
    "order": "order-embeddings",
    "order0": "order, root",
    "orderpp": "order++, root",
    "univse": "UniVSE",
    "univse_no_comp": "UniVSE, no components",
    "univse_obj": "UniVSE, objects only",
    "univse_attr": "UniVSE, attributes only",
    "univse_rel": "UniVSE, relations only",
    "univse_average_pooling": "UniVSE, mean pooling",
    "univse_max_pooling": "UniVSE, maximum pooling",
    "univse_aggregate_sum": "UniVSE, components by sum",
    "univse_aggregate_max": "UniVSE, components by maximum",
    "univse_aggregate_gru": "UniVSE, components by GRU",
    "univse_aggregate_attention": "UniVSE, components by attention",
    "univse_learned_alpha": "UniVSE, learned α",
    "univse_truth": "UniVSE, true pairs masked",
    "univse_random": "UniVSE, random backbone",
    "vsec": "VSE-C, all",
    "vsec_redrawn": "VSE-C, adversaries redrawn",
    "vsec_noun": "VSE-C, nouns",
    "vsec_numeral": "VSE-C, numbers",
    "vsec_relation": "VSE-C, relations",
    "jwae_mse": "jWAE-MSE",
    "jwae_mse_hglmm": "jWAE-MSE, HGLMM",
    "jwae_mh": "jWAE-MH",
    "jwae_mh_gru": "jWAE-MH, GRU",
    "jwae_mh_scan_t2i": "jWAE-MH+SCAN t-i",
    "jwae_mh_scan_i2t": "jWAE-MH+SCAN i-t",
    "mse": "MSE",
    "mmd_mse": "MMD-MSE",
    "vae_mh": "VAE-MH",
    "scan_t2i_avg": "SCAN t-i, mean",
    "scan_t2i_lse": "SCAN t-i, LogSumExp",
    "scan_i2t_avg": "SCAN i-t, mean",
    "scan_i2t_lse": "SCAN i-t, LogSumExp",
    "scan_both": "SCAN, both directions",
    "vse_infinity": "VSE∞",
    "cse": "CSE",
    "relational_basic": "relational, basic",
    "relational_pool": "relational, node pooling",
    "relational_attention": "relational, cross-attention",
    "embedding_network": "Embedding Network",
    "embedding_network_hglmm": "Embedding Network, HGLMM",
    "similarity_network": "Similarity Network",
    "cca": "CCA",
    "cca_hglmm": "CCA, HGLMM",
}
_OF_THE_REST = {"": "", "_steps": ", as many steps", "_unpaired": ", rest unpaired"}


def label_of(arm: str) -> str:
    """The printed name of an arm, or of a preset without its data; its own name in words if it has none.

    An arm of few pairs is its system, the percentage of the pairs, and the use of the rest.
    """
    for use, about in _OF_THE_REST.items():
        system, _, percent = arm.removesuffix(use).rpartition("_")
        if arm.endswith(use) and system in SYSTEMS and percent.isdigit():
            return f"{SYSTEMS[system]}, {percent} %{about}"
    return SYSTEMS.get(arm, arm.replace("_", " "))
